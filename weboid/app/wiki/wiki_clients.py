"""API clients of wikis, created from their settings."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from core.config.settings import Settings
from core.errors import BadUrlError, ConfigError, InputError
from core.hosts import HostPatterns, UpstreamProxyScheme, parse_upstream_proxy
from core.urls import host_of
from links.registry.wikis import Wiki
from net.tls_client import strict_context
from wiki.api.client import ApiSettings, WikiApi, user_agent
from wiki.api.credentials import WikiCredentials, read_account
from wiki.api.transport import ServerRoute, is_same_server
from wiki.api.wikidata import WikibaseRepository
from wiki.settings import FeedSettings, WikiSettings


def settings_of_wiki(wiki: Wiki) -> WikiSettings:
    """Return the wiki's settings, as stored in the registry."""
    try:
        return WikiSettings.parse(wiki.settings)
    except ConfigError as error:
        raise ConfigError(
            f"The settings of {wiki.name} cannot be used: {error} "
            f"`weboid wiki set {wiki.name} --set KEY=JSON` replaces it."
        ) from error


def wiki_credentials(feed: FeedSettings) -> WikiCredentials:
    """Return the credentials with which the wiki is read."""
    password, basic = (Path(name) if name else None for name in (feed.password_file, feed.basic_file))
    return read_account(feed.account, password, basic_file=basic)


def open_api(address: str, account: WikiCredentials, settings: Settings, limits: ApiSettings | None = None) -> WikiApi:
    """Create an API client with User-Agent (`[links]`) and route (`[egress]`) of `settings`; sends nothing."""
    api_settings = replace(limits or ApiSettings(), agent=wiki_user_agent(settings))
    return WikiApi(address, account, settings=api_settings, route=route_to(address, settings))


def wiki_user_agent(settings: Settings) -> str:
    """Return the User-Agent for requests to wikis."""
    links = settings.links
    return user_agent(links.contact or settings.visit.contact, links.purpose_page)


def route_to(url: str, settings: Settings) -> ServerRoute:
    """Return the route to a server from `[egress]`: `ca_file` and `via`."""
    proxies = HostPatterns({host: (parse_upstream_proxy(text),) for host, text in settings.egress.via.items()})
    try:
        host = host_of(url)
    except BadUrlError as error:
        raise ConfigError(f"{url[:200]!r} is not an address: {error}") from error
    (via,) = proxies.of(host) or (None,)
    if via is not None and via.scheme is not UpstreamProxyScheme.HTTP:
        raise ConfigError(
            f"[egress] via routes {host} through {via}, and wikis are queried through http proxies "
            f'only: name one, or write "{host}" = "direct".'
        )
    proxy = ""
    if via is not None:
        login = f"{quote(via.username, safe='')}:{quote(via.password, safe='')}@" if via.username else ""
        proxy = f"http://{login}{via.host}:{via.port}"
    return ServerRoute(strict_context(settings.egress.ca_file), proxy)


def open_wiki_api(wiki: Wiki, settings: Settings) -> WikiApi:
    """Create the API client of a wiki in the registry, with its own settings."""
    if not wiki.url:
        raise ConfigError(f"The address of {wiki.name} is unknown: run `weboid wiki add URL --name {wiki.name}`.")
    return open_api(wiki.url, wiki_credentials(settings_of_wiki(wiki).feed), settings)


def bot_api(wiki: Wiki, settings: Settings, *, needs_account: bool = True) -> WikiApi:
    """Create the wiki's API client with the bot's account, or if none is needed with its feed's credentials."""
    stored = settings_of_wiki(wiki)
    feed, bot = stored.feed, stored.bot
    if not wiki.url:
        raise InputError(f"The address of {wiki.name} is unknown: run `weboid wiki add URL`.")
    if bot.account and bot.password_file:
        account = wiki_credentials(replace(feed, account=bot.account, password_file=bot.password_file))
    elif needs_account:
        raise InputError(
            f"The bot has no account on {wiki.name}: `weboid wiki bot on {wiki.name} --account USER@APP"
            " --password-file FILE`. It uses no other account."
        )
    else:
        account = wiki_credentials(feed)
    return open_api(wiki.url, account, settings, ApiSettings(maxlag_s=bot.maxlag_s))


def open_items(api: WikiApi, settings: Settings, limits: ApiSettings | None = None) -> WikibaseRepository:
    """Create an anonymous Wikidata client, with the credentials of a server in front of both; sends nothing."""

    def opened(address: str) -> WikiApi:
        is_same = is_same_server(api.address, address)
        return open_api(address, WikiCredentials(basic=api.account.basic if is_same else ""), settings, limits)

    return WikibaseRepository(api, opened)
