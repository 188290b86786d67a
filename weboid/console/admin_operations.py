"""Operations of the console on archiving rules, take-downs and levels, and on accounts and API tokens."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from core.errors import InputError
from core.json_values import FactsOf, json_value
from core.timestamps import parse_duration, parse_timestamp14
from crawler.frontier.base import POLICY_ORDER
from crawler.policy.policy_entries import PolicyEntry, PolicyKind, new_entry, read_entries
from playback.access.levels import Level, LevelActor, LevelTarget, target_of
from playback.access.takedowns import (
    Takedown,
    TakedownEffect,
    TakedownKind,
    add_takedowns,
    lift_takedowns,
    list_takedowns,
    normalize_target,
)
from playback.web.i18n import noop
from weboid.console import operations
from weboid.console.accounts import AccountRow, ConsoleRole, TokenFacts

# --------------------------------------------------------------------------------------------------------------- rules

PolicyFacts = Annotated[dict[str, Any], FactsOf(
    "PolicyFacts", PolicyEntry, "kind pattern made_at", id=str, version=int, expires_at=NotRequired[datetime],
    **dict.fromkeys(("reason", "actor", "key", "value"), NotRequired[str]),
)]  # fmt: skip
PolicyList = TypedDict("PolicyList", {"entries": list[PolicyFacts]})
NewPolicy = Annotated[dict[str, Any], FactsOf("NewPolicy", PolicyFacts, message=str)]
RemovedPolicy = TypedDict("RemovedPolicy", {"id": str, "message": str})
TakedownFacts = Annotated[dict[str, Any], FactsOf("TakedownFacts", Takedown, holds=bool)]
TakedownList = TypedDict("TakedownList", {"takedowns": list[TakedownFacts], "version": int, "next": str | None})
NewTakedown = TypedDict("NewTakedown", {"kind": TakedownKind, "what": str, "effect": TakedownEffect, "message": str})
LiftedTakedown = TypedDict("LiftedTakedown", {"number": int, "message": str})
LevelFacts = TypedDict("LevelFacts", {"what": str, "rule": Level | None, "level": Level | None})
NewLevel = TypedDict("NewLevel", {"what": str, "level": Level | None, "message": str})


@operations.resource("/policy", ConsoleRole.REVIEWER)
def list_policy(context: operations.OperationContext) -> PolicyList:
    """Return the archiving rules."""
    entries = read_entries(context.frontier.orders(POLICY_ORDER))
    return {"entries": [{"id": key, **entry.facts} for key, entry in entries.by_id.items()]}


@operations.operation("/policy", ConsoleRole.CURATOR, status=201, state=list_policy)
def add_policy(
    context: operations.OperationContext,
    *,
    pattern: Annotated[str, Field(min_length=1, max_length=2_000)],
    kind: Literal["blacklist", "whitelist"] = "blacklist",
    reason: Annotated[str, Field(min_length=1, max_length=500)],
    duration: Annotated[str, Field(description="Duration such as 30d; by default the rule does not end.")] = "",
) -> NewPolicy:
    """Add an archiving rule, which crawls follow within a second."""
    entry = new_entry(
        PolicyEntry(
            kind=PolicyKind(kind),
            pattern=pattern,
            reason=reason,
            actor=context.user.name,
            made_at=context.now,
            expires_at=context.now + parse_duration(duration) if duration else None,
            key="",
            value="",
        )
    )
    context.frontier.give_order(POLICY_ORDER, entry.id, entry.to_json())
    return {"id": entry.id, **entry.facts, "message": f"The rule for {pattern} is in force."}


@operations.operation("/policy/remove", ConsoleRole.CURATOR, state=list_policy)
def remove_policy(context: operations.OperationContext, entry_id: str) -> RemovedPolicy:
    """Remove an archiving rule."""
    if not context.frontier.take_back(POLICY_ORDER, entry_id):
        raise InputError(noop("There is no rule %(rule)s."), rule=repr(entry_id[:100]))
    return {"id": entry_id, "message": "The rule was removed."}


@operations.resource("/takedowns", ConsoleRole.REVIEWER)
def read_takedowns(
    context: operations.OperationContext, cursor: operations.Cursor = "", limit: operations.Limit = 100
) -> TakedownList:
    """Return the take-downs with their tickets, by number, lifted ones too.

    `version` is another one after each decision, so that the ETag is one of all take-downs.
    """
    decisions, after = context.stores.decisions, operations.cursor_number(cursor)
    version, takedowns = decisions.version(), list_takedowns(decisions, after=after, limit=limit)
    following = str(takedowns[-1].number) if len(takedowns) == limit else None
    return {"takedowns": [_takedown_facts(context, each) for each in takedowns], "version": version, "next": following}


def _takedown_facts(context: operations.OperationContext, takedown: Takedown) -> TakedownFacts:
    return {**json_value(asdict(takedown)), "holds": takedown.holds(context.now)}


def _named_takedowns(context: operations.OperationContext, kind: TakedownKind, url: str) -> Any:
    target = normalize_target(kind, url)
    return [_takedown_facts(context, each) for each in list_takedowns(context.stores.decisions, target=target)]


def _lifted_takedown(context: operations.OperationContext, number: int) -> Any:
    takedowns = list_takedowns(context.stores.decisions, after=number - 1, limit=1)
    return [_takedown_facts(context, each) for each in takedowns if each.number == number]


@operations.operation("/takedowns", ConsoleRole.CURATOR, status=201, state=read_takedowns, logged=_named_takedowns)
def add_takedown(
    context: operations.OperationContext,
    *,
    url: operations.Url,
    kind: TakedownKind = TakedownKind.URL,
    timestamp: Annotated[str, Field(pattern="^([0-9]{14})?$", description="Of a single capture.")] = "",
    effect: TakedownEffect = TakedownEffect.BLOCK,
    reason: operations.Reason = "",
    ticket: Annotated[str, Field(max_length=200)] = "",
    duration: str = "",
) -> NewTakedown:
    """Take down content, from the next request on."""
    from playback.takedown_coverage import not_in_force, takedown_targets

    now = context.now
    if kind is TakedownKind.CAPTURE:
        parse_timestamp14(timestamp)
    model = Takedown(
        number=0,
        kind=kind,
        what="",
        timestamp=timestamp if kind is TakedownKind.CAPTURE else "",
        effect=effect,
        reason=reason,
        ticket=ticket,
        actor=context.user.name,
        decided_at=now,
        expires_at=now + parse_duration(duration) if duration else None,
    )
    wanted, decisions = takedown_targets(context.stores.database, model, [url]), context.stores.decisions
    add_takedowns(decisions, not_in_force(decisions, wanted, now))
    target = wanted[0].what
    return {"kind": kind, "what": target, "effect": effect, "message": f"{target} is no longer shown."}


@operations.operation("/takedowns/lift", ConsoleRole.CURATOR, state=read_takedowns, logged=_lifted_takedown)
def lift_takedown(
    context: operations.OperationContext, number: operations.Number, reason: operations.Reason = "lifted in the console"
) -> LiftedTakedown:
    """Lift a take-down; it stays in the history."""
    takedowns = list_takedowns(context.stores.decisions, after=number - 1, limit=1)
    if not takedowns or (takedowns[0].number, takedowns[0].lifted_at) != (number, None):
        raise InputError(noop("No take-down in force has the number %(number)s."), number=number)
    lift_takedowns(context.stores.decisions, [number], actor=context.user.name, reason=reason, now=context.now)
    return {"number": number, "message": f"Take-down {number} was lifted."}


def _level_target(link: str, domain: str) -> LevelTarget:
    if bool(link) == bool(domain):
        raise InputError(noop("Name a link or a domain."))
    return target_of(link=link) if link else target_of(domain=domain)


@operations.resource("/levels")
def read_level(context: operations.OperationContext, link: str = "", domain: str = "") -> LevelFacts:
    """Return the rule for a link or a domain, and for a link the level that holds."""
    target = _level_target(link, domain)
    rules = context.stores.levels.now()
    own = next((each.level for each in rules.rules if each.target == target), None)
    return {"what": target.what, "rule": own, "level": rules.of(link) if link else None}


@operations.operation("/levels", ConsoleRole.CURATOR, state=read_level)
def set_level(
    context: operations.OperationContext,
    link: str = "",
    domain: str = "",
    level: Annotated[Level | Literal[""], Field(description="Empty: the more general rules apply again.")] = "",
    reason: operations.Reason = "",
) -> NewLevel:
    """Set the level of a link or a domain: how much of its copies readers are shown."""
    target, actor = _level_target(link, domain), LevelActor(context.user.name)
    context.stores.levels.decide([target], level or None, actor=actor, now=context.now, reason=reason, is_stored=False)
    message = f"{target.what} is shown at the level {level or 'of its rules'}."
    return {"what": target.what, "level": level or None, "message": message}


# ------------------------------------------------------------------------------------------------------------ accounts

AccountFacts = Annotated[dict[str, Any], FactsOf("AccountRow", AccountRow)]
AccountList = TypedDict("AccountList", {"users": list[AccountFacts]})
ChangedPassword = TypedDict("ChangedPassword", {"name": str, "message": str})
ChangedAccount = TypedDict("ChangedAccount", {"name": str, "role": ConsoleRole, "message": str})
RemovedAccount = TypedDict("RemovedAccount", {"name": str, "message": str})
TokenList = TypedDict("TokenList", {"tokens": list[TokenFacts]})
# A repeated request is answered without the secret.
NewToken = TypedDict("NewToken", {"name": str, "role": ConsoleRole, "token": NotRequired[str], "message": str})
RemovedToken = TypedDict("RemovedToken", {"id": int, "message": str})


@operations.resource("/users", ConsoleRole.ADMIN)
def list_users(context: operations.OperationContext) -> AccountList:
    """Return the accounts."""
    return {"users": [json_value(asdict(each)) for each in context.stores.accounts.users()]}


def _changed_user(context: operations.OperationContext, name: str) -> Any:
    return [json_value(asdict(each)) for each in context.stores.accounts.users(name)]


@operations.operation("/users", ConsoleRole.ADMIN, status=201, state=list_users, logged=_changed_user)
def set_user(
    context: operations.OperationContext,
    name: operations.Name,
    role: ConsoleRole,
    password: Annotated[
        str | None, Field(max_length=1_000, description="Without a password it signs in by link or OIDC.")
    ] = None,
) -> ChangedAccount:
    """Add or change an account with its role and password; its sessions end."""
    context.stores.accounts.set_user(name, role, password=password or None)
    return {"name": name, "role": role, "message": f"{name} is {role}."}


@operations.operation("/me/password", ConsoleRole.READER)
def change_password(
    context: operations.OperationContext,
    *,
    current: Annotated[
        str, Field(max_length=1_000, exclude=True, description="Present password, if there is one.")
    ] = "",
    password: Annotated[str, Field(max_length=1_000)],
) -> ChangedPassword:
    """Change the password of your account; its other sessions end, its tokens stay."""
    context.stores.accounts.change_password(context.user, current, password)
    return {"name": context.user.name, "message": "The password was changed."}


@operations.operation("/users/remove", ConsoleRole.ADMIN, state=list_users, logged=_changed_user)
def remove_user(context: operations.OperationContext, name: str) -> RemovedAccount:
    """Remove an account with its sessions and tokens."""
    context.stores.accounts.remove_user(name)
    return {"name": name, "message": f"{name} was removed."}


@operations.resource("/tokens")
def list_tokens(context: operations.OperationContext) -> TokenList:
    """Return the API tokens of your account without their secrets; of all accounts to administrators."""
    user = context.user
    return {"tokens": json_value(context.stores.accounts.tokens("" if user.may(ConsoleRole.ADMIN) else user.name))}


def _own_tokens(context: operations.OperationContext) -> Any:
    return context.stores.accounts.tokens(context.user.name)


@operations.operation("/tokens", ConsoleRole.READER, status=201, state=list_tokens, logged=_own_tokens)
def add_token(
    context: operations.OperationContext,
    name: operations.Name,
    role: ConsoleRole = ConsoleRole.READER,
    scopes: Annotated[
        Sequence[str],
        BeforeValidator(lambda each: [each] if isinstance(each, str) else each),
        Field(description="Operations that it may call, and `read` for resources; none: everything the role allows."),
    ] = (),
    duration: Annotated[str, Field(description="Until it expires.")] = "365d",
) -> NewToken:
    """Create an API token; the answer has its secret, which is not shown again."""
    if unknown := sorted(set(scopes) - {*operations.OPERATIONS, "read", "upload_file"}):
        raise InputError(noop("There is no operation %(name)s."), name=repr(unknown[0]))
    if context.user.scopes or ":" in context.user.name:
        raise InputError(noop("A token cannot create tokens: sign in."))
    age = parse_duration(duration)
    secret = context.stores.accounts.add_token(name, context.user, role, scopes=tuple(scopes), age=age)
    return {"name": name, "role": role, "token": secret, "message": f"The token {name} was created."}


@operations.operation("/tokens/remove", ConsoleRole.READER, state=list_tokens)
def remove_token(context: operations.OperationContext, id: operations.Number) -> RemovedToken:  # noqa: A002 of this name in the API
    """Remove an API token, of your account or as an administrator any."""
    own = "" if context.user.may(ConsoleRole.ADMIN) else context.user.name
    context.stores.accounts.remove_token(id, owner=own)
    return {"id": id, "message": "The token was removed."}
