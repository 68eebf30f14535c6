"""One request to the API: bounded in time and size, every failure a `SourceError` that names the server and what to do."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from time import monotonic as _monotonic
from urllib.parse import urlsplit

import requests
import urllib3.exceptions
from requests.adapters import HTTPAdapter
from requests.utils import get_environ_proxies

from hwsonde_detector.errors import SourceError, SourceGarbled, SourceRefused, SourceUnreachable
from hwsonde_detector.sources.decode import describe, one_line, refusal
from hwsonde_detector.sources.failures import DroppedError, failure
from hwsonde_detector.sources.options import SourceOptions

_CHUNK = 1 << 18
_MAX_ERROR_BODY = 1 << 16


def is_loopback(host: str) -> bool:
    """Whether a host, as an address has it, is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class Http:
    """Connections to one server, kept open between requests.

    Parameters
    ----------
    options
        Address, bounds, identity.
    monotonic
        Clock of the bound on a whole answer, in seconds.
    """

    def __init__(self, options: SourceOptions, monotonic: Callable[[], float] = _monotonic) -> None:
        self.options = options
        self._monotonic = monotonic
        parts = urlsplit(options.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._loopback = is_loopback(host)
        self._session = self._open()

    def post(self, path: str, form: Mapping[str, str]) -> bytes:
        """Send a form and give the body of a good answer.

        Parameters
        ----------
        path
            Below the address, ``/api/v1/query``.
        form
            Fields of the form.

        Raises
        ------
        SourceError
            The fitting one of its kinds.
        """
        try:
            return self._post(path, form)
        except DroppedError:
            # A kept connection that the server had closed meanwhile, after a restart for example. Asking has no side effects.
            return self._post(path, form)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _open(self) -> requests.Session:
        options = self.options
        session = requests.Session()
        # Environment variables and .netrc would otherwise send secrets and queries elsewhere, loopback included.
        session.trust_env = False
        session.headers.update({"User-Agent": "hwsonde-detector", "Accept": "application/json"})
        session.headers["Accept-Encoding"] = "identity" if self._loopback else "gzip"
        session.verify = str(options.ca_file) if options.ca_file else True
        if options.cert_file:
            session.cert = (
                (str(options.cert_file), str(options.key_file)) if options.key_file else str(options.cert_file)
            )
        if options.proxy_url:
            session.proxies = {"http": options.proxy_url, "https": options.proxy_url}
        elif options.proxy_from_environment and not self._loopback:
            session.proxies = get_environ_proxies(options.url)
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=2, max_retries=0))
        return session

    def _post(self, path: str, form: Mapping[str, str]) -> bytes:
        options = self.options
        headers = options.credentials.fresh()
        limits = (options.connect_timeout_ms / 1000, options.read_timeout_ms / 1000)
        deadline = self._monotonic() + sum(limits)
        try:
            with self._session.post(
                options.url.rstrip("/") + path,
                data=dict(form),
                headers=headers,
                timeout=limits,
                stream=True,
                allow_redirects=False,
            ) as response:
                if response.status_code != 200:
                    raise self._refused(response, deadline)
                return b"".join(self._chunks(response, options.max_answer, deadline))
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise failure(error, self.where, options) from None

    def _chunks(self, response: requests.Response, most: int, deadline: float) -> Iterator[bytes]:
        total = 0
        while chunk := response.raw.read1(_CHUNK, decode_content=True):
            total += len(chunk)
            if total > most:
                raise SourceGarbled(
                    f"{self.where}: the answer is larger than {most} bytes; narrow source.selector or raise source.max_answer"
                )
            if self._monotonic() > deadline:
                raise SourceUnreachable(
                    f"{self.where}: the answer did not end in time; raise source.read_timeout or narrow source.selector"
                )
            yield chunk

    def _head(self, response: requests.Response, deadline: float) -> bytes:
        """Give the beginning of an error's body: what arrives, as far as it arrives."""
        body = bytearray()
        try:
            while len(body) < _MAX_ERROR_BODY and self._monotonic() < deadline:
                chunk = response.raw.read1(_CHUNK, decode_content=True)
                if not chunk:
                    break
                body += chunk
        except (urllib3.exceptions.HTTPError, OSError):
            pass  # the status has said what matters
        return bytes(body[:_MAX_ERROR_BODY])

    def _refused(self, response: requests.Response, deadline: float) -> SourceError:
        status = response.status_code
        if 300 <= status < 400:
            parts = urlsplit(response.headers.get("Location", ""))
            target = f" to {one_line(f'{parts.scheme}://{parts.hostname}', 80)}" if parts.hostname else ""
            return SourceRefused(
                f"{self.where}: answers {status} and sends elsewhere{target}; set source.url to the final address"
            )
        if status < 400:
            return SourceGarbled(f"{self.where}: answers {status} without content; check source.url")
        body = self._head(response, deadline)
        said = refusal(body)
        if said is None:
            said = (
                f"with {describe(body)}"
                if body.lstrip()[:1] in {b"<", b""}
                else one_line(body.decode("utf-8", "replace"), 120)
            )
        return SourceRefused(f"{self.where}: answers {status}: {said}; {_advice(status)}")


def _advice(status: int) -> str:
    if status in {401, 403, 407}:
        return "check source.basic, source.bearer or source.tenant"
    if status in {404, 405}:
        return "check the path in source.url"
    if status in {422, 400, 413}:
        return "check source.selector"
    return "it may be starting or overloaded; look at its log"
