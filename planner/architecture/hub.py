"""A model by its id on the Hugging Face Hub: its config.json, and what its files' headers say. Nothing else is fetched.

Only called on a user's explicit wish. Answers by its deadline whatever a name server, a proxy or the Hub does; sizes
are limited as everywhere, and nothing is executed. Where the deadline passes after the configuration has come, that is
the answer, without the headers.

The client, the address (HF_ENDPOINT), the token (HF_TOKEN and the library's other ways) and the offline switch are
those of `huggingface_hub`. The token goes to the Hub itself only, and into no message.

References:
    https://huggingface.co/docs/hub/api; error codes: huggingface_hub, utils/_http.py, `hf_raise_for_status`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from planner.architecture import hub_cache
from planner.architecture.checkpoint.sizes import checkpoint_of, with_checkpoint
from planner.architecture.hub_fetch import FetchedModel, Progress, fetch_in_time
from planner.errors import InvalidConfig, InvalidInput, Unreachable

__all__ = ["FetchedModel", "Progress", "fetch_model"]

DEADLINE_S = 20.0
FRESH_S = 24 * 3600.0
MAX_REDIRECTS = 5
# Organisation and name: letters, digits and "-_.", neither beginning nor ending in "-" or ".", no "--" and no "..".
_ID = re.compile(r"(?!.*(?:--|\.\.))\w(?:[\w.-]{0,94}\w)?/\w(?:[\w.-]{0,94}\w)?", re.ASCII)
_RENAMED = re.compile(r"/api/models/([\w.-]{1,96}/[\w.-]{1,96})(?:[/?].*)?", re.ASCII)
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")


def fetch_model(
    model_id: str,
    *,
    deadline_s: float = DEADLINE_S,
    progress: Progress | None = None,
    home: str | None = None,
    fresh_s: float = FRESH_S,
) -> FetchedModel:
    """The model of that id, from the Hub, or from what was fetched from it before.

    Args:
        model_id: "organisation/name".
        deadline_s: seconds until an answer or a refusal.
        progress: told of each step.
        home: folder for what is kept; None: `hub_cache.default_home()`.
        fresh_s: what was fetched at most so many seconds ago is taken as it is. Older is only where the Hub can't be
            reached, or where HF_HUB_OFFLINE is set.

    Raises:
        InvalidInput: `hub_bad_id`; as `read_header` and `parse_index` for files that aren't what they say.
        InvalidConfig: as `parse_config` for the model's configuration, or `hub_no_config`.
        Unreachable: `hub_offline`, `hub_timeout`, `hub_unreachable`, `hub_gated`, `hub_not_found`, `hub_renamed`,
            `hub_disabled`, `hub_forbidden`, `hub_bad_token`, `hub_busy`, `hub_server_error`, `hub_broken_answer`,
            `hub_too_large` or `hub_redirect`.
    """
    if not _ID.fullmatch(model_id):
        raise InvalidInput("hub_bad_id", field="model", given=model_id[:100])
    folder = home or hub_cache.default_home()
    hub = _Hub(model_id, monotonic() + deadline_s)
    kept = _kept(folder, hub.endpoint, model_id)
    now = datetime.now(UTC)
    if kept is not None and (now - kept.fetched_at).total_seconds() <= fresh_s:
        return kept
    if hub.offline:
        if kept is not None:
            return kept
        raise Unreachable("hub_offline", field="model", model=model_id)
    try:
        fetched = fetch_in_time(hub, deadline_s, progress)
    except Unreachable as error:
        if kept is not None and error.code in ("hub_unreachable", "hub_timeout"):
            return kept
        raise
    if not fetched.headers_missing:
        hub_cache.write_entry(
            folder,
            hub.endpoint,
            model_id,
            fetched.configuration(),
            fetched.revision,
            fetched.fetched_at,
        )
    return fetched


def _kept(folder: str, endpoint: str, model_id: str) -> FetchedModel | None:
    entry = hub_cache.read_entry(folder, endpoint, model_id)
    if entry is None:
        return None
    config = entry["config"]
    try:
        checkpoint = checkpoint_of(config)
    except InvalidConfig:
        return None
    plain = with_checkpoint(config, None)
    return FetchedModel(
        model_id, plain, checkpoint, entry["revision"], entry["fetched_at"], from_cache=True
    )


class _Hub:
    """A model's repository on the Hub, until a deadline; see `hub_fetch.Repository`.

    Attributes:
        endpoint: its address.
        offline: HF_HUB_OFFLINE is set.
    """

    def __init__(self, model_id: str, end: float) -> None:
        from huggingface_hub import constants

        self.model_id = model_id
        self._end = end
        self.endpoint: str = constants.ENDPOINT
        self.offline: bool = constants.is_offline_mode()

    def remaining(self) -> float:
        """Seconds until the deadline; a little more than none once it has passed."""
        return max(0.001, self._end - monotonic())

    def info(self, limit: int) -> bytes:
        """What the Hub's API says of a repository, as JSON text."""
        url = f"{self.endpoint}/api/models/{self.model_id}"
        with self._answer(url, "info") as response:
            return self._body(response, "info", limit)

    def read(self, revision: str, name: str, limit: int) -> bytes:
        """A small file, whole."""
        with self._answer(self._url(revision, name), name) as response:
            return self._body(response, name, limit)

    def read_range(self, revision: str, name: str, offset: int, length: int) -> tuple[bytes, int]:
        """A part of a file, and the size of the whole."""
        last = offset + length - 1
        with self._answer(
            self._url(revision, name),
            name,
            {"range": f"bytes={offset}-{last}"},
        ) as response:
            found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
            if response.status_code == 206 and found is not None and int(found[1]) == offset:
                return self._body(response, name, length, cut=True), int(found[3])
            size = response.headers.get("content-length", "")
            # A server that sends the whole file will do, if it was its beginning that was asked for.
            whole = response.status_code == 200 and size.isascii() and size.isdigit()
            if whole and offset == 0:
                return self._body(response, name, length, cut=True), int(size[:19])
            raise Unreachable("hub_broken_answer", field="model", model=self.model_id)

    def _url(self, revision: str, name: str) -> str:
        return f"{self.endpoint}/{self.model_id}/resolve/{revision}/{quote(name)}"

    @contextmanager
    def _answer(self, url: str, what: str, headers: dict[str, str] | None = None) -> Iterator[Any]:
        """A successful response, its body unread; redirects followed, refusals raised.

        Raises:
            Unreachable: with a code of its own for each reason.
        """
        from huggingface_hub import get_session
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

        # Whatever goes wrong on the way has this class of the client library as its base.
        failure: type[Exception] = HfHubHTTPError.__mro__[1]
        sent = {"user-agent": "headroom", "accept-encoding": "identity", **(headers or {})}
        token = self._token()
        try:
            for _ in range(MAX_REDIRECTS + 1):
                own = _origin(url) == _origin(self.endpoint)
                authorised = {"authorization": f"Bearer {token}"} if token and own else {}
                with get_session().stream(
                    "GET",
                    url,
                    headers=sent | authorised,
                    timeout=self.remaining(),
                    follow_redirects=False,
                ) as response:
                    if response.status_code // 100 == 3 and response.headers.get("location"):
                        url = self._redirected(url, response.headers["location"], what)
                        continue
                    if response.status_code >= 400:
                        raise self._refusal(response, what, has_token=bool(token))
                    yield response
                    return
        except OfflineModeIsEnabled:
            raise Unreachable("hub_offline", field="model", model=self.model_id) from None
        except failure as error:
            # Every step may take until the deadline, so one that ran out of time has met it.
            late = "Timeout" in type(error).__name__ or monotonic() >= self._end
            code = "hub_timeout" if late else "hub_unreachable"
            host = urlsplit(url).hostname or ""
            raise Unreachable(code, field="model", model=self.model_id, host=host[:100]) from None
        except Exception as error:
            # What the client says to an address that is none: HF_ENDPOINT, or where a redirect leads.
            if isinstance(error, ValueError) or type(error).__name__ == "InvalidURL":
                raise Unreachable("hub_redirect", field="model", model=self.model_id) from None
            raise
        raise Unreachable("hub_redirect", field="model", model=self.model_id)

    def _token(self) -> str | None:
        from huggingface_hub import constants, get_token
        from huggingface_hub.errors import DeviceCodeError, OIDCError

        if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
            return None
        try:
            return get_token()
        except (DeviceCodeError, OIDCError):
            raise Unreachable("hub_bad_token", field="model", model=self.model_id) from None

    def _redirected(self, url: str, location: str, what: str) -> str:
        """Where a redirect leads: a renamed repository is named, anything less safe than before refused."""
        try:
            target = urljoin(url, location)
            old, new = _origin(url), _origin(target)
            path = urlsplit(target).path
        except ValueError:  # no address at all
            raise Unreachable("hub_redirect", field="model", model=self.model_id) from None
        renamed = _RENAMED.fullmatch(path) if what == "info" and new == old else None
        if renamed is not None and renamed[1] != self.model_id:
            raise Unreachable("hub_renamed", field="model", model=self.model_id, now=renamed[1])
        if new[0] != "https" and new[:2] != old[:2]:
            raise Unreachable("hub_redirect", field="model", model=self.model_id)
        return target

    def _refusal(self, response: Any, what: str, *, has_token: bool) -> Unreachable:
        status: int = response.status_code
        code = response.headers.get("x-error-code", "")
        message = response.headers.get("x-error-message", "")
        told: dict[str, Any] = {
            "field": "model",
            "model": self.model_id,
            "page": f"{self.endpoint}/{self.model_id}",
        }
        if code == "GatedRepo":
            return Unreachable("hub_gated_for_token" if has_token else "hub_gated", **told)
        if message.startswith("Invalid credentials"):
            return Unreachable("hub_bad_token", **told)
        if message.startswith("Access to this resource is disabled"):
            return Unreachable("hub_disabled", **told)
        if code in ("EntryNotFound", "RevisionNotFound") or (status == 404 and what != "info"):
            return Unreachable("hub_file_missing", file=what, **told)
        if code == "RepoNotFound" or status in (401, 404):
            return Unreachable("hub_not_found_for_token" if has_token else "hub_not_found", **told)
        if status == 403:
            return Unreachable("hub_forbidden", **told)
        if status == 429:
            return Unreachable("hub_busy", **told)
        return Unreachable("hub_server_error", status=status, **told)

    def _body(self, response: Any, what: str, limit: int, *, cut: bool = False) -> bytes:
        """The body, refused above the limit, or read no further than it where `cut`."""
        content = bytearray()
        for chunk in response.iter_raw(chunk_size=65536):
            content += chunk
            if monotonic() >= self._end:
                raise Unreachable("hub_timeout", field="model", model=self.model_id)
            if len(content) > limit:
                if cut:
                    break
                raise Unreachable(
                    "hub_too_large",
                    field="model",
                    model=self.model_id,
                    file=what,
                    maximum_bytes=limit,
                )
            if cut and len(content) == limit:
                break
        return bytes(content[:limit])


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port
