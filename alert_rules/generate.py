"""Writes the rule files and Alertmanager configurations, for all profiles or, with links of one's own, for one of them.

``python -m alert_rules.generate`` renews the committed files. ``python -m alert_rules.generate --profile fleet --detector-url
https://hwsonde.example.org --runbooks-url https://wiki.example.org/hwsonde --output DIR`` makes a set for one site.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from alert_rules import others, paging
from alert_rules.receivers import PagerDuty, Receiver, Receivers, Slack, Webhook
from alert_rules.rules import groups
from alert_rules.timing import FLEET, PROFILES, Timing
from alert_rules.writing import Links

HERE = Path(__file__).resolve().parent
OTHERS = "others"  # the fleet profile's times, on the names of other exporters
NAMES = (*PROFILES, OTHERS)
_HEADER = "# Made by python -m alert_rules.generate: change that, not this file.\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and indents lists, as people do."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the signature is the library's
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is the library's
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def to_yaml(document: object) -> str:
    """Give a document as YAML with the header that says where it comes from."""
    return _HEADER + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)


def rule_file(timing: Timing, links: Links) -> str:
    """Text of the rule file of a profile."""
    return to_yaml({"groups": groups(timing, links)})


def alertmanager_file(timing: Timing, who: Receivers) -> str:
    """Text of the Alertmanager configuration of a profile."""
    return to_yaml(paging.configuration(timing, who))


def others_file(timing: Timing, links: Links) -> str:
    """Text of the rule file for hosts that have exporters of others only."""
    ours = {str(rule["alert"]): rule for group in groups(timing, links) for rule in group["rules"] if "alert" in rule}
    return to_yaml({"groups": others.groups(timing, links, ours)})


def files(profiles: Sequence[str], links: Links, who: Receivers) -> dict[str, str]:
    """Name below the output folder, and text, of every file of these profiles."""
    found = {}
    for name in profiles:
        timing = PROFILES.get(name, FLEET)
        found[f"{name}.yml"] = others_file(timing, links) if name == OTHERS else rule_file(timing, links)
        found[f"alertmanager/{timing.name}.yml"] = alertmanager_file(timing, who)
    return found


def _arguments() -> argparse.ArgumentParser:
    links, pagerduty, slack = Links(), PagerDuty(), Slack()
    parser = argparse.ArgumentParser(
        prog="python -m alert_rules.generate", description="Write the rules and the Alertmanager configuration."
    )
    parser.add_argument("--profile", choices=sorted(NAMES), help="only this profile (default: all)")
    parser.add_argument(
        "--output", type=Path, default=HERE, help="folder to write to (default: the one of this program)"
    )
    parser.add_argument(
        "--detector-url",
        default=links.detector,
        help="the detector's page, as operators reach it (default: %(default)s)",
    )
    parser.add_argument(
        "--runbooks-url",
        default=links.runbooks,
        help="where the pages of docs/runbooks are found (default: %(default)s)",
    )
    parser.add_argument(
        "--page-to",
        choices=("pagerduty", "slack", "webhook"),
        action="append",
        help="who hears of critical alerts; may be given several times (default: pagerduty)",
    )
    parser.add_argument(
        "--tickets-to",
        choices=("slack", "webhook"),
        action="append",
        help="who hears of warnings; may be given several times (default: nobody, they are only shown)",
    )
    parser.add_argument(
        "--pagerduty-url", default=pagerduty.url, help="PagerDuty's Events v2 address (default: %(default)s)"
    )
    parser.add_argument(
        "--routing-key-file",
        default=pagerduty.routing_key_file,
        help="file that holds PagerDuty's routing key (default: %(default)s)",
    )
    parser.add_argument(
        "--slack-url-file",
        default=slack.url_file,
        help="file that holds the address of Slack's incoming webhook (default: %(default)s)",
    )
    parser.add_argument("--slack-channel", default=slack.channel, help="channel (default: that of the address)")
    parser.add_argument("--webhook-url", default="", help="address of the webhook, where it is no secret")
    parser.add_argument(
        "--webhook-url-file", default="", help="file that holds the webhook's address; for Alertmanager 0.26 or newer"
    )
    parser.add_argument("--webhook-token-file", default="", help="file with a token to show to the webhook")
    parser.add_argument("--watchdog-url", default="", help="address that is called every minute while alerts arrive")
    parser.add_argument(
        "--watchdog-url-file", default="", help="file that holds that address; for Alertmanager 0.26 or newer"
    )
    return parser


def _receivers(given: argparse.Namespace) -> Receivers:
    """Who is told, from the arguments; raises ValueError."""
    named = {*(given.page_to or ["pagerduty"]), *(given.tickets_to or [])}
    if (given.webhook_url or given.webhook_url_file) and "webhook" not in named:
        raise ValueError("the webhook's address: say what goes there, with --page-to webhook or --tickets-to webhook")
    known: dict[str, Receiver] = {}
    if "pagerduty" in named:
        known["pagerduty"] = PagerDuty(given.pagerduty_url, given.routing_key_file)
    if "slack" in named:
        known["slack"] = Slack(given.slack_url_file, given.slack_channel)
    if "webhook" in named:
        known["webhook"] = Webhook(given.webhook_url, given.webhook_url_file, given.webhook_token_file)
    watched = given.watchdog_url or given.watchdog_url_file
    return Receivers(
        pages=tuple(known[name] for name in dict.fromkeys(given.page_to or ["pagerduty"])),
        tickets=tuple(known[name] for name in dict.fromkeys(given.tickets_to or [])),
        watchdog=(Webhook(given.watchdog_url, given.watchdog_url_file, resolved=False),) if watched else (),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; status 2 and one line when an argument or the folder is wrong."""
    given = _arguments().parse_args(arguments)
    profiles = [given.profile] if given.profile else NAMES
    try:
        made = files(profiles, Links(given.detector_url, given.runbooks_url), _receivers(given))
        for name, text in made.items():
            path = given.output / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"generate: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
