"""The control room: what an operator sees, and the few verbs an operator has.

    base        read-only by permission, capped counts, only the lookups that are named
    paginator   a count that stops, so that no page counts the whole table
    filters     fixed choices, never a DISTINCT over the table
    search      ids, id prefixes, names, and `key:value`
    changelist  what a list reads beside its rows
    people      the user's name beside an owner's key
    forbidding  the page for who lacks a permission, which names it
    acts        one verb on some rows: who may, where it leads, why not
    confirming  the page that asks for a reason, and for what else an act wants
    applying    the loop that calls the verb, and what it tells
    display     statuses, links and values as safe HTML
    moments     times in words
    masking     no secret leaves by a payload
    ansi        terminal output as text with classes
    loglines    chunks of output as lines
    joblog      a job's log: on its page, live as JSON, raw as a download
    why         what a job waits for, in one sentence
    jobpage     what stands on a job's page
    jobwork     the part of it between facts and log: question, actions, progress, steps
    answering   a job's question as a form
    waiting     what waits for a person, in numbers
    related     the latest rows that belong to an agent, a connector or a watch
    parts       which rows those are, and what is shown of each
    wishes      ports, limits and folders in words
    repositories  where a source came from, without any login
    jobs (jobacts, jobcolumns), agents (agentacts), connectors, secrets and tokens
    (domainacts), watches and proposals (watchacts), versions, builds, sources, notices,
    workers, overview: one family a file

No rule lives here: `states` says which verb is allowed, `queue.verbs` and `builds` apply
it, and a permission of its own guards each.
"""

from __future__ import annotations

from django.apps import apps

# Template tags import this package wherever the app is installed; a host without
# Django's admin has nothing to register with.
if apps.is_installed("django.contrib.admin"):
    from . import (  # noqa: F401 - importing a family registers it
        actions,
        agents,
        builds,
        connectors,
        jobs,
        notices,
        overview,
        proposals,
        secrets,
        sources,
        tokens,
        versions,
        watches,
        workers,
    )
