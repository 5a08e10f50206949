"""`python -m planner <verb>`."""

import sys

INTERRUPTED = 130  # what a shell says of a command that Ctrl+C ended

if __name__ == "__main__":
    try:
        from planner.cli import main

        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
