"""Former names of commands and options, which still work, and those of browsertrix-crawler."""

import click

# A former name may end with an option that a command of its own replaced.
FORMER_NAMES = {
    "archive verify": "collection verify",
    "cache clear": "collection cache --clear",
    "cache show": "collection cache",
    "diff": "qa diff",
    "enqueue": "crawl add",
    "frontier": "queue",
    "frontier purge": "queue rm",
    "host": "queue hosts",
    "host ls": "queue hosts",
    "host pause": "crawl pause",
    "host resume": "crawl resume",
    "hosts": "queue hosts",
    "index": "collection",
    "level clear": "level rm",
    "level history": "level ls --history",
    "level rights add": "level rights",
    "level rights allow": "level rights",
    "level rights ls": "level rights",
    "level rights rm": "level rights --remove",
    "level rights withdraw": "level rights --remove",
    "links additions": "links spam additions",
    "links copies --choose": "links copies set",
    "links copies --drop": "links copies rm",
    "links copies --find": "links copies find",
    "links copies --lock": "links copies set --lock",
    "links copies --unlock": "links copies set --unlock",
    "links copies --verify": "links copies check",
    "links exclude suggest": "links exclude ls --suggest",
    "links mark always": "links mark set always",
    "links mark lift": "links mark rm",
    "links mark never": "links mark set never",
    "links mark permadead": "links mark set permadead",
    "links mark permalive": "links mark set permalive",
    "links mark setting": "links mark set",
    "links spam hits": "links spam show",
    "links spam lists": "links spam ls",
    "links spam load": "links spam add",
    "links spam scan": "links spam run",
    "links spam unload": "links spam rm",
    "links wiki": "wiki set",
    "pause": "crawl pause",
    "pause-host": "crawl pause",
    "policy explain": "policy show",
    "profile": "config",
    "qa drift": "qa compare",
    "qa run": "qa",
    "resume": "crawl resume",
    "resume-host": "crawl resume",
    "scan lists check": "scan lists test",
    "scan lists show": "scan lists ls",
    "scan threats": "scan ls",
    "sheet ls": "sheet",
    "sheet rm": "sheet --remove",
    "sheet set": "sheet",
    "stop": "crawl stop",
    "takedown lift": "takedown rm",
    "wiki bot edits": "wiki bot ls",
    "wiki bot status": "wiki bot show",
}
# Verbs of other programs, by ours.
VERBS = {"list": "ls", "remove": "rm", "delete": "rm", "get": "show", "update": "set"}
# Former names of options, by the present name, on every command that has it.
FORMER_OPTIONS = {
    "--dry-run": "--dryRun",
    "--exclude": "--scopeExcludeRx",
    "--extra-hops": "--extraHops",
    "--frontier": "--redisStoreUrl",
    "--host-limit": "--host-pages",
    "--include": "--scopeIncludeRx",
    "--job": "--name",
    "--lane": "--priority",
    "--limit": "--pageLimit --maxPageLimit",
    "--list": "--file --seedFile --urlFile",
    "--listen": "--serve",
    "--reason": "--why",
    "--scope": "--scopeType",
    "--sitemaps": "--sitemap --useSitemap",
    "--size-limit": "--bytes --sizeLimit",
    "--time-limit": "--time --timeLimit",
    "--webhook-secret-file": "--secret-file",
}


def with_current_name(args: list[str]) -> list[str]:
    """Return the arguments with a command's present name for a former one, and report that."""
    for former in sorted(FORMER_NAMES, key=len, reverse=True):
        words, present = former.split(), FORMER_NAMES[former].split()
        flag = words.pop() if words[-1].startswith("--") else ""
        rest = args[len(words) :]
        is_present = flag and rest[:1] == present[len(words) :][:1]
        typed = [each if each in words else VERBS.get(each, each) for each in args[: len(words)]]
        if typed != words or (flag and flag not in rest) or is_present:
            continue
        if flag:
            rest.remove(flag)
        click.echo(f"`weboid {former}` is now `weboid {FORMER_NAMES[former]}`.", err=True)
        return [*present, *rest]
    return args
