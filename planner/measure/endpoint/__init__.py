"""The benchmark of an endpoint: any server that streams OpenAI's completions or chat completions."""
