"""All that is said to one registry for one look-up: logging in where it is demanded, following where it redirects."""

from dataclasses import dataclass

from webhook.images.addresses import Resolve
from webhook.images.challenges import parse_challenges
from webhook.images.credentials import Login
from webhook.images.deadline import Deadline
from webhook.images.hosts import Url, parse_url
from webhook.images.http_request import HttpRequest, HttpResponse, exchange
from webhook.images.login import LoginChallenge, TokenCache
from webhook.images.lookup_errors import LookUpError
from webhook.images.lookup_limits import LookupLimits
from webhook.images.refusals import refusal
from webhook.images.registries import Site

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Query:
    """One thing that is asked for: the words for it, its path below the registry, and how it may come."""

    what: str
    path: str
    most_bytes: int
    accept: tuple[str, ...] = ()
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class RepositorySession:
    """One look-up of one repository, until the deadline."""

    site: Site
    repository: str
    login: Login | None
    limits: LookupLimits
    deadline: Deadline
    passes: TokenCache
    resolver: Resolve

    def ask(self, query: Query) -> HttpResponse:
        """The answer with status 200. Raises LookUpError."""
        answer = self._follow(query)
        if answer.status == 401 and self.site.is_own(answer.url):
            self.passes.drop(self.site, self.repository)
            challenges = parse_challenges(answer.headers.get_all("www-authenticate") or ())
            door = LoginChallenge(self.site, self.repository, self.login, self.limits.token_bytes, self._exchange)
            self.passes.keep(self.site, self.repository, door.open(challenges))
            answer = self._follow(query)
        if answer.status != 200:
            raise refusal(answer, query.what)
        return answer

    def _follow(self, query: Query) -> HttpResponse:
        url = self.site.url(query.path)
        for _ in range(self.limits.redirects + 1):
            answer = self._exchange(HttpRequest(url, query.most_bytes, query.method, self._headers(url, query)))
            if answer.status not in _REDIRECTS:
                return answer
            url = parse_url(answer.headers.get("location", ""), url)
            self.site.check_redirect(url)
        raise LookUpError(f"the registry redirects more than {self.limits.redirects} times")

    def _headers(self, url: Url, query: Query) -> dict[str, str]:
        """Who is logged in is said to the registry alone."""
        headers = {"Accept": ", ".join(query.accept)} if query.accept else {}
        authorization = self.passes.get(self.site, self.repository) if self.site.is_own(url) else None
        return headers if authorization is None else {**headers, "Authorization": authorization}

    def _exchange(self, request: HttpRequest) -> HttpResponse:
        return exchange(request, self.site.registry, self.limits, self.deadline, self.resolver)
