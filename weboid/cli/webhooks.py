"""`weboid webhooks`: receivers of events, and the deliveries to them."""

import asyncio
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import click

from core.errors import InputError
from core.timestamps import warc_date_at
from core.urls import fetch_key
from crawler.collection import read_collection
from net.stop_signals import wait_unless_stopped
from weboid.app.collection_config import WEBHOOK_EVENTS, read_config
from weboid.app.operator_identity import collection_settings
from weboid.app.text_table import clean
from weboid.app.webhooks.webhook_sender import WebhookSender
from weboid.app.webhooks.webhook_store import WebhookDelivery, WebhookStore, add_webhook, event_body, remove_webhook
from weboid.cli.support.commands import CLOCK, CommandGroup, ExitCode, argument, cli_command, option
from weboid.cli.support.options import COLLECTION, DURATION, PROFILE, output


@click.group("webhooks", cls=CommandGroup)
def webhooks_group() -> None:
    """Send events of a collection to other programs, signed.

    Receivers are the tables [[webhooks]] of weboid.toml. See docs/how-to/webhooks.md.
    """


@cli_command("ls", webhooks_group)
def list_command(
    *,
    deliveries: bool = option("List deliveries with their results instead, newest first."),
    limit: int = option("Maximum number of deliveries.", within=(1, None), default=50),
    state: str | None = option("Only deliveries in this state.", choices=("queued", "delivered", "failed")),
    collection: Path = COLLECTION,
) -> None:
    """List the webhooks with their events, or the deliveries to them."""
    layout = read_collection(collection)
    hooks = () if deliveries else read_config(layout.root).webhooks()
    with closing(WebhookStore(layout.webhooks_db)) as store:
        queued = {each.url: len(store.deliveries(url=each.url, state="queued", limit=-1)) for each in hooks}
        sent = store.deliveries(limit=limit, state=state or "") if deliveries else []
    if deliveries:
        heads, rows = ("made", "state", "attempts>", "event", "url", "reason"), []
        for each in sent:
            date = warc_date_at(int(each.made * 1000))
            rows.append((date, each.state, each.attempts, each.type, each.url, each.reason))
        output.table([each._asdict() for each in sent], heads, rows, "There are no deliveries.")
        return
    facts = [asdict(each) | {"secret_file": str(each.secret_file), "queued": queued[each.url]} for each in hooks]
    listed = [(queued[each.url], each.url, " ".join(each.events)) for each in hooks]
    output.table(facts, ("queued>", "url", "events"), listed, "There are no webhooks.")


@cli_command("add", webhooks_group)
def add_command(
    *,
    url: str = argument("URL"),
    events: tuple[str, ...] = option(
        f"{', '.join(WEBHOOK_EVENTS)}; may be given several times.  [default: all]",
        "--event",
        metavar="EVENT",
        multiple=True,
    ),
    collection: Path = COLLECTION,
) -> None:
    """Add a webhook to weboid.toml, with a new secret for its receiver.

    Commands that run already send to it after their next start.
    """
    hook = add_webhook(read_collection(collection).root, url, events)
    text = f"Added {hook.url}. Its receiver verifies deliveries with the secret in {hook.secret_file}."
    output.show({"url": hook.url, "events": hook.events, "secret_file": str(hook.secret_file)}, text)


@cli_command("rm", webhooks_group, has_json=False)
def remove_command(*, url: str = argument("URL"), collection: Path = COLLECTION) -> None:
    """Remove a webhook from weboid.toml; its unfinished deliveries end."""
    remove_webhook(read_collection(collection).root, url)


def _send_test(url: str, collection: Path, profile: str) -> int:
    """Send an event "test" to a webhook, and print the answer; return the exit code."""
    layout = read_collection(collection)
    wanted = fetch_key(url, allow_single_label=True)
    hook = next((each for each in read_config(layout.root).webhooks() if each.url == wanted), None)
    if hook is None:
        raise InputError(f"{url} is not a webhook of {collection}: `weboid webhooks ls` lists them.")
    now = CLOCK.now()

    async def send(store: WebhookStore) -> WebhookDelivery:
        async with WebhookSender(layout.root, collection_settings(profile, layout.root), store, CLOCK) as sender:
            body = event_body("test", layout.root, [], now=now)
            delivery_id = store.add(hook.url, "test", body, now=now.timestamp())
            await sender.send_claimed(store.claim(now=now.timestamp(), delivery_id=delivery_id))
            return next(each for each in store.deliveries(url=hook.url, limit=-1) if each.id == delivery_id)

    with closing(WebhookStore(layout.webhooks_db)) as store:
        sent = asyncio.run(send(store))
        if sent.state == "queued":  # a test is not repeated
            store.end(sent, "failed", status=sent.status, reason=sent.reason)
    is_sent = sent.state == "delivered"
    text = f"Delivered: HTTP {sent.status}." if is_sent else f"Not delivered: {clean(sent.reason)}."
    output.show(sent._asdict() | {"state": "delivered" if is_sent else "failed"}, text)
    return ExitCode.OK if is_sent else ExitCode.SOME_FAILED


@cli_command("send", webhooks_group)
def send_command(
    *,
    every: timedelta | None = option("Repeat at this interval: 1m.", type=DURATION),
    test: str = option('Send an event "test" to this webhook instead, and show the answer.', metavar="URL"),
    collection: Path = COLLECTION,
    profile: str = PROFILE,
) -> int:
    """Send the deliveries that are due, or a test.

    Due are, for example, repetitions after the end of a crawl.
    """
    if test:
        return _send_test(test, collection, profile)
    layout = read_collection(collection)

    async def send() -> None:
        settings = collection_settings(profile, layout.root)
        with closing(WebhookStore(layout.webhooks_db)) as store:
            async with WebhookSender(layout.root, settings, store, CLOCK) as sender:
                while True:
                    count = await sender.send_all()
                    if count or every is None:
                        output.show({"attempts": count}, f"{count} deliveries were attempted.")
                    if every is None or not await wait_unless_stopped(every):
                        return

    asyncio.run(send())
    return ExitCode.OK
