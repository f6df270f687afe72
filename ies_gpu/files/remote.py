"""Remote files by URL (``s3://``, ``gs://``, ``https://``), through fsspec: the extra ``cloud``.

They are copied to and from temporary ones; object stores show a result only once it is complete.
"""

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from ..findings import Finding, finding_of, refusal

URL = re.compile(r"[a-zA-Z][\w+.-]+(::[\w+.-]+)*://")
URLS = re.compile(URL.pattern + r"[^\s'\"]+")
SCHEMES = ("s3", "gs", "gcs", "https", "http")
AMAZON = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the job a role"
GOOGLE = "set GOOGLE_APPLICATION_CREDENTIALS to a file with a key, or give the job a service account"
HOW_TO_LOG_IN = {"s3": AMAZON, "gs": GOOGLE, "gcs": GOOGLE}


def is_remote(path: Any) -> bool:
    """Return whether a path is a URL, or a chain of them, unlike Windows drives."""
    return isinstance(path, str) and URL.match(path) is not None


def check_local(path: Path) -> None:
    """Refuse a URL that pathlib has made a path of: its two slashes are one now, and its secrets would be shown."""
    if URL.match(path.as_posix().replace(":/", "://", 1)):
        scheme = scheme_of(path.as_posix()).partition(":")[0]
        raise refusal("url.path", f"{scheme}: pass a URL as text, not as a pathlib.Path")


def scheme_of(url: str) -> str:
    return url.partition("://")[0].lower()


def shown(url: str) -> str:
    """Return a URL for people and logs without password, query and fragment, which may be secret; a path as it is."""
    if not is_remote(url):
        return url
    # keys of objects may have a # in them, but hardly with a = behind
    rest = r"\?.*|#[^/]*=.*" if scheme_of(url) in HOW_TO_LOG_IN else r"[?#].*"
    return re.sub(rest, "", re.sub(r"(://)[^/]*@", r"\1", url), flags=re.DOTALL)


def name_of(url: str) -> str:
    """Return a name for a local copy, which stays in its folder whatever the URL says."""
    return re.sub(r"[^\w.-]", "_", PurePosixPath(shown(url)).name).lstrip(".")[-100:] or "file"


def check_remote(url: str) -> None:
    """Check the form of a URL that will be read."""
    name = shown(url)
    if scheme_of(url) not in SCHEMES:
        raise refusal("url.scheme", f"{name}: URLs must begin with one of {', '.join(f'{s}://' for s in SCHEMES)}")
    if "::" in url:  # fsspec would open several places in a chain, your own disk among them
        raise refusal("url.chain", f"{name}: a URL must not contain '::'", "name the file itself")
    if not url.split("/")[2]:
        raise refusal("url.bucket", f"{name} has no bucket or host", "put it after the two slashes")


def check_remote_output(url: str, opened: Callable[[str], tuple[Any, str]] | None = None) -> None:
    """Check, before long work, that a URL can be written; a bucket that cannot be listed is accepted."""
    check_remote(url)
    if scheme_of(url) not in HOW_TO_LOG_IN:
        text = f"{shown(url)}: {scheme_of(url)}:// can be read but not written"
        raise refusal("url.read_only", text, "use s3://, gs:// or a file")
    if shown(url) != url:
        raise refusal("url.secrets", f"{shown(url)}: a URL to write to must have no user, query or fragment")
    bucket = "/".join(url.split("/")[:3])
    with said(bucket, "the place for the result was not found"):
        system, place = (opened or file_system)(bucket)
        try:
            system.info(place)
        except FileNotFoundError:
            system.ls(place)  # with permission only to list a Google bucket, an empty one is found only this way
        except OSError as error:  # of s3fs, of gcsfs
            if not (isinstance(error, PermissionError) or str(error).startswith("Forbidden")):
                raise


@contextlib.contextmanager
def fetched(url: str) -> Iterator[Path]:
    """Fetch a temporary copy of a file with its ending, deleted at the end (a mapping of it stays valid)."""
    check_remote(url)
    with tempfile.TemporaryDirectory(prefix="ies-gpu-", ignore_cleanup_errors=True) as folder:
        local = Path(folder) / name_of(url)
        with said(url, "reading failed"):
            system, place = file_system(url)
            system.get_file(place, str(local))  # or an error if less arrives than was announced
        try:
            yield local
        except (ValueError, OSError) as error:  # about the content: name the URL, not the temporary file
            found = finding_of(error) or Finding("file.damaged", "error", str(error))
            text, advice = (part.replace(str(local), shown(url)) for part in (found.text, found.advice))
            raise refusal(found.code, text, advice) from None


@contextlib.contextmanager
def uploaded(url: str) -> Iterator[Path]:
    """Give a temporary file to write, which is uploaded at the end, completely or not at all."""
    with tempfile.TemporaryDirectory(prefix="ies-gpu-", ignore_cleanup_errors=True) as folder:
        local = Path(folder) / name_of(url)
        yield local
        with said(url, "writing failed; what was there before, if anything, is unchanged"):
            system, place = file_system(url)
            # one request, or parts that become an object only when all have arrived, and are discarded on failure
            system.put_file(str(local), place)


def file_system(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the path in it."""
    import fsspec

    # our own instance: shared ones keep connections and settings of other callers
    if HOW_TO_LOG_IN.get(scheme_of(url)) != GOOGLE:
        return fsspec.core.url_to_fs(url, skip_instance_cache=True)
    # HTTPS only: the gRPC of the class that fsspec would take has nothing that whole objects need, waits for minutes
    # where it is blocked, and shows objects of zonal buckets while they are being written.
    from gcsfs.core import GCSFileSystem

    options = GCSFileSystem._get_kwargs_from_urls(url)
    return GCSFileSystem(**options, skip_instance_cache=True), GCSFileSystem._strip_protocol(url)


@contextlib.contextmanager
def said(url: str, failure: str) -> Iterator[None]:
    """Turn the errors of many libraries into a few that name the URL and say what to do."""
    name = shown(url)
    try:
        yield
    except ImportError as error:
        text = f"{name} needs the extra cloud ({error})"
        raise refusal("url.extra", text, "pip install 'ies-gpu[cloud]'", ImportError) from None
    except FileNotFoundError:
        text = f"{name} does not exist"
        raise refusal("url.missing", text, "check the bucket and the path", FileNotFoundError) from None
    except Exception as error:
        why = shown_text(" ".join(str(error).split()), url)[:200]  # in this order: half a secret is not found
        text = f"{name}: {failure} ({type(error).__name__}: {why or 'no details'})"
        way = f"try again, or check your credentials ({HOW_TO_LOG_IN.get(scheme_of(url), 'use a signed URL')})"
        raise refusal("url.failed", text, way, ConnectionError) from None


def shown_text(text: str, url: str) -> str:
    """Return a message without what ``shown`` leaves out of its URLs, and of this one, wherever it stands."""
    text = URLS.sub(lambda found: shown(found[0]), text)
    users, rest = re.findall(r"://([^/]*)@", url), re.split(r"[?#]", url, maxsplit=1)[1:]
    secrets = [*users, *(user.partition(":")[2] for user in users), *rest, *re.findall(r"=([^&#;]+)", "".join(rest))]
    for secret in sorted({*secrets, *map(unquote, secrets)}, key=len, reverse=True):
        if len(secret) > 2:
            text = text.replace(secret, "...")
    return text
