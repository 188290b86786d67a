"""Operations of the console on archiving rules, take-downs and levels, and on accounts and API tokens."""

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
from weboid.console.accounts import AccountRow, ConsoleRole, TokenFacts
from weboid.console.operations import (
    OPERATIONS,
    ListFields,
    NoFields,
    Number,
    OperationContext,
    OperationFields,
    Reason,
    Url,
    operation,
    resource,
)

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


@resource("/policy", ConsoleRole.REVIEWER)
def list_policy(context: OperationContext, query: NoFields) -> PolicyList:  # noqa: ARG001
    """Return the archiving rules."""
    entries = read_entries(context.frontier.orders(POLICY_ORDER))
    return {"entries": [{"id": key, **entry.facts} for key, entry in entries.by_id.items()]}


class PolicyFields(OperationFields):
    """Archiving rule."""

    pattern: Annotated[str, Field(min_length=1, max_length=2_000)]
    kind: Literal["blacklist", "whitelist"] = "blacklist"
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    duration: str = Field(default="", description="Duration such as 30d; by default the rule does not end.")


@operation("/policy", ConsoleRole.CURATOR, status=201, state=list_policy)
def add_policy(context: OperationContext, fields: PolicyFields) -> NewPolicy:
    """Add an archiving rule, which crawls follow within a second."""
    expires = context.now + parse_duration(fields.duration) if fields.duration else None
    entry = new_entry(
        PolicyEntry(
            kind=PolicyKind(fields.kind),
            pattern=fields.pattern,
            reason=fields.reason,
            actor=context.user.name,
            made_at=context.now,
            expires_at=expires,
            key="",
            value="",
        )
    )
    context.frontier.give_order(POLICY_ORDER, entry.id, entry.to_json())
    return {"id": entry.id, **entry.facts, "message": f"The rule for {fields.pattern} is in force."}


class PolicyEntryFields(OperationFields):
    """Stored archiving rule."""

    entry_id: str


@operation("/policy/remove", ConsoleRole.CURATOR, state=list_policy)
def remove_policy(context: OperationContext, fields: PolicyEntryFields) -> RemovedPolicy:
    """Remove an archiving rule."""
    if not context.frontier.take_back(POLICY_ORDER, fields.entry_id):
        raise InputError(f"There is no rule {fields.entry_id[:100]!r}.")
    return {"id": fields.entry_id, "message": "The rule was removed."}


@resource("/takedowns", ConsoleRole.REVIEWER)
def read_takedowns(context: OperationContext, query: ListFields) -> TakedownList:
    """Return the take-downs with their tickets, by number, lifted ones too.

    `version` is another one after each decision, so that the ETag is one of all take-downs.
    """
    decisions = context.stores.decisions
    version, found = decisions.version(), list_takedowns(decisions, after=query.after, limit=query.limit)
    following = str(found[-1].number) if len(found) == query.limit else None
    return {"takedowns": [_takedown_facts(context, each) for each in found], "version": version, "next": following}


def _takedown_facts(context: OperationContext, takedown: Takedown) -> TakedownFacts:
    return {**json_value(asdict(takedown)), "holds": takedown.holds(context.now)}


def _first_takedowns(context: OperationContext, fields: Any) -> Any:  # noqa: ARG001
    return read_takedowns(context, ListFields())


def _changed_takedowns(context: OperationContext, fields: Any) -> Any:
    if isinstance(fields, LiftFields):
        found = list_takedowns(context.stores.decisions, after=fields.number - 1, limit=1)
        return [_takedown_facts(context, each) for each in found if each.number == fields.number]
    what = normalize_target(fields.kind, fields.url)
    return [_takedown_facts(context, each) for each in list_takedowns(context.stores.decisions, what=what)]


class TakedownFields(OperationFields):
    """Content that readers are not shown."""

    url: Url
    kind: TakedownKind = TakedownKind.URL
    timestamp: str = Field(default="", pattern="^([0-9]{14})?$", description="Of a single capture.")
    effect: TakedownEffect = TakedownEffect.BLOCK
    reason: Reason = ""
    ticket: Annotated[str, Field(max_length=200)] = ""
    duration: str = ""


@operation("/takedowns", ConsoleRole.CURATOR, status=201, state=_first_takedowns, logged=_changed_takedowns)
def add_takedown(context: OperationContext, fields: TakedownFields) -> NewTakedown:
    """Take down content, from the next request on."""
    from playback.takedown_coverage import not_in_force, takedown_targets

    kind, now = fields.kind, context.now
    if kind is TakedownKind.CAPTURE:
        parse_timestamp14(fields.timestamp)
    model = Takedown(
        number=0,
        kind=kind,
        what="",
        timestamp=fields.timestamp if kind is TakedownKind.CAPTURE else "",
        effect=fields.effect,
        reason=fields.reason,
        ticket=fields.ticket,
        actor=context.user.name,
        decided_at=now,
        expires_at=now + parse_duration(fields.duration) if fields.duration else None,
    )
    wanted, decisions = takedown_targets(context.stores.database, model, [fields.url]), context.stores.decisions
    add_takedowns(decisions, not_in_force(decisions, wanted, now))
    what = wanted[0].what
    return {"kind": fields.kind, "what": what, "effect": fields.effect, "message": f"{what} is no longer shown."}


class LiftFields(OperationFields):
    """Take-down to lift."""

    number: Number
    reason: Reason = "lifted in the console"


@operation("/takedowns/lift", ConsoleRole.CURATOR, state=_first_takedowns, logged=_changed_takedowns)
def lift_takedown(context: OperationContext, fields: LiftFields) -> LiftedTakedown:
    """Lift a take-down; it stays in the history."""
    found = list_takedowns(context.stores.decisions, after=fields.number - 1, limit=1)
    if not found or (found[0].number, found[0].lifted_at) != (fields.number, None):
        raise InputError(f"No take-down in force has the number {fields.number}.")
    lift_takedowns(
        context.stores.decisions, [fields.number], actor=context.user.name, reason=fields.reason, now=context.now
    )
    return {"number": fields.number, "message": f"Take-down {fields.number} was lifted."}


class LevelQuery(OperationFields):
    """A link or a domain."""

    link: str = ""
    domain: str = ""

    @property
    def target(self) -> LevelTarget:
        """Return what is named. Raises InputError."""
        if bool(self.link) == bool(self.domain):
            raise InputError("Name a link or a domain.")
        return target_of(link=self.link) if self.link else target_of(domain=self.domain)


@resource("/levels")
def read_level(context: OperationContext, query: LevelQuery) -> LevelFacts:
    """Return the rule for a link or a domain, and for a link the level that holds."""
    target = query.target
    rules = context.stores.levels.now()
    own = next((each.level for each in rules.rules if each.target == target), None)
    return {"what": target.what, "rule": own, "level": rules.of(query.link) if query.link else None}


class LevelFields(LevelQuery):
    """Level of a link or a domain; without a level its rule is removed."""

    level: Level | Literal[""] = Field(default="", description="Empty: the more general rules apply again.")
    reason: Reason = ""


@operation("/levels", ConsoleRole.CURATOR, state=read_level)
def set_level(context: OperationContext, fields: LevelFields) -> NewLevel:
    """Set the level of a link or a domain: how much of its copies readers are shown."""
    target = fields.target
    level = fields.level or None
    context.stores.levels.decide(
        [target], level, actor=LevelActor(context.user.name), now=context.now, reason=fields.reason, is_stored=False
    )
    return {
        "what": target.what,
        "level": level,
        "message": f"{target.what} is shown at the level {level or 'of its rules'}.",
    }


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


@resource("/users", ConsoleRole.ADMIN)
def list_users(context: OperationContext, query: NoFields) -> AccountList:  # noqa: ARG001
    """Return the accounts."""
    return {"users": [json_value(asdict(each)) for each in context.stores.accounts.users()]}


class UserFields(OperationFields):
    """Account and its role."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    role: ConsoleRole
    password: str | None = Field(
        default=None, max_length=1_000, description="Without a password it signs in by link or OIDC."
    )


def _changed_user(context: OperationContext, fields: Any) -> Any:
    return [json_value(asdict(each)) for each in context.stores.accounts.users(fields.name)]


@operation("/users", ConsoleRole.ADMIN, status=201, state=list_users, logged=_changed_user)
def set_user(context: OperationContext, fields: UserFields) -> ChangedAccount:
    """Add or change an account with its role and password; its sessions end."""
    context.stores.accounts.set_user(fields.name, fields.role, password=fields.password or None)
    return {"name": fields.name, "role": fields.role, "message": f"{fields.name} is {fields.role}."}


class PasswordFields(OperationFields):
    """New password of your own account."""

    current: str = Field(default="", max_length=1_000, exclude=True, description="Present password, if there is one.")
    password: str = Field(max_length=1_000)


@operation("/me/password", ConsoleRole.READER)
def change_password(context: OperationContext, fields: PasswordFields) -> ChangedPassword:
    """Change the password of your account; its other sessions end, its tokens stay."""
    context.stores.accounts.change_password(context.user, fields.current, fields.password)
    return {"name": context.user.name, "message": "The password was changed."}


class UserNameFields(OperationFields):
    """An account."""

    name: str


@operation("/users/remove", ConsoleRole.ADMIN, state=list_users, logged=_changed_user)
def remove_user(context: OperationContext, fields: UserNameFields) -> RemovedAccount:
    """Remove an account with its sessions and tokens."""
    context.stores.accounts.remove_user(fields.name)
    return {"name": fields.name, "message": f"{fields.name} was removed."}


@resource("/tokens")
def list_tokens(context: OperationContext, query: NoFields) -> TokenList:  # noqa: ARG001
    """Return the API tokens of your account without their secrets; of all accounts to administrators."""
    user = context.user
    return {"tokens": context.stores.accounts.tokens("" if user.may(ConsoleRole.ADMIN) else user.name)}


def _own_tokens(context: OperationContext, fields: Any) -> Any:  # noqa: ARG001
    return context.stores.accounts.tokens(context.user.name)


class TokenFields(OperationFields):
    """API token."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    role: ConsoleRole = ConsoleRole.READER
    scopes: Annotated[list[str], BeforeValidator(lambda each: [each] if isinstance(each, str) else each)] = Field(
        default=[],
        description="Operations that it may call, and `read` for resources; none: everything the role allows.",
    )
    duration: str = Field(default="365d", description="Until it expires.")


@operation("/tokens", ConsoleRole.READER, status=201, state=list_tokens, logged=_own_tokens)
def add_token(context: OperationContext, fields: TokenFields) -> NewToken:
    """Create an API token; the answer has its secret, which is not shown again."""
    if unknown := sorted(set(fields.scopes) - {*OPERATIONS, "read", "upload_file"}):
        raise InputError(f"There is no operation {unknown[0]!r}.")
    if context.user.scopes or ":" in context.user.name:
        raise InputError("A token cannot create tokens: sign in.")
    age = parse_duration(fields.duration)
    secret = context.stores.accounts.add_token(
        fields.name, context.user, fields.role, scopes=tuple(fields.scopes), age=age
    )
    return {
        "name": fields.name,
        "role": fields.role,
        "token": secret,
        "message": f"The token {fields.name} was created.",
    }


class TokenNumberFields(OperationFields):
    """An API token."""

    id: Number


@operation("/tokens/remove", ConsoleRole.READER, state=list_tokens)
def remove_token(context: OperationContext, fields: TokenNumberFields) -> RemovedToken:
    """Remove an API token, of your account or as an administrator any."""
    own = "" if context.user.may(ConsoleRole.ADMIN) else context.user.name
    context.stores.accounts.remove_token(fields.id, owner=own)
    return {"id": fields.id, "message": "The token was removed."}
