"""Plans for the demo: what agents of a software team are asked to do, and the steps they take."""

from typing import NamedTuple


class Plan(NamedTuple):
    """One task: the title of its session, and the contents of its todos."""

    title: str
    steps: tuple[str, ...]


PLANS = (
    Plan(
        "Rate limiting for the public API",
        (
            "Read the gateway's middleware chain",
            "Choose limits per plan with the numbers of last month",
            "Add a token bucket in front of the router",
            "Answer 429 with Retry-After",
            "Cover bursts and clock skew with tests",
            "Document the limits in the API guide",
        ),
    ),
    Plan(
        "Checkout fails for cards with 3-D Secure",
        (
            "Reproduce it with the sandbox card",
            "Follow the redirect through the payment service",
            "Keep the order id across the redirect",
            "Add a regression test",
            "Ask support to try the failing case again",
        ),
    ),
    Plan(
        "Move the search index to version 8",
        (
            "List queries that use removed options",
            "Build the new index beside the old one",
            "Write to both indexes",
            "Compare results for the top 500 queries",
            "Switch reads over",
            "Stop writing to the old index",
            "Delete the old index after a week",
        ),
    ),
    Plan(
        "Nightly export takes four hours",
        (
            "Profile one run on staging",
            "Replace the per-row lookups by one join",
            "Stream rows instead of collecting them",
            "Measure again with production volume",
            "Set an alert for runs over 30 minutes",
        ),
    ),
    Plan(
        "Dark mode for the settings pages",
        (
            "Collect hard-coded colours",
            "Move them into design tokens",
            "Add the dark palette",
            "Check contrast of every text style",
            "Take screenshots for the review",
        ),
    ),
    Plan(
        "Flaky test in the sync module",
        (
            "Run the test 200 times to see how often it fails",
            "Log the order of events in a failing run",
            "Wait for the acknowledgement instead of a fixed delay",
            "Run it 200 times again",
        ),
    ),
    Plan(
        "Onboarding guide for new engineers",
        (
            "Follow the current guide on a clean machine",
            "Note every step that fails or is missing",
            "Rewrite the set-up chapter",
            "Add a map of the services",
            "Let a new colleague try it",
            "Work in the remarks",
        ),
    ),
    Plan(
        "Upgrade the billing service to Python 3.13",
        (
            "Check dependencies for wheels",
            "Replace the modules that were removed",
            "Run the suite under the new interpreter",
            "Fix new deprecation warnings",
            "Build and scan the image",
            "Roll out to one instance",
            "Roll out everywhere",
        ),
    ),
    Plan(
        "Audit log for administrators",
        (
            "Write down which actions are recorded",
            "Add the append-only table",
            "Record actions in the admin service",
            "Page through the log in the console",
            "Restrict access to the security role",
            "Test with ten million rows",
        ),
    ),
    Plan(
        "Memory grows in the image resizer",
        (
            "Take heap snapshots an hour apart",
            "Find what keeps the decoded images",
            "Close the buffers after each job",
            "Run the load test overnight",
            "Remove the nightly restart",
        ),
    ),
    Plan(
        "CSV import with a preview",
        (
            "Detect delimiter and encoding",
            "Show the first twenty rows",
            "Let people map columns to fields",
            "Report bad rows with their line numbers",
            "Import in the background with progress",
            "Write the help page",
        ),
    ),
    Plan(
        "Invoice numbers with gaps",
        (
            "Find out where numbers get lost",
            "Take the number inside the transaction",
            "Backfill the missing ones as cancelled",
            "Agree on the wording with accounting",
        ),
    ),
    Plan(
        "Push notifications arrive twice",
        (
            "Compare the two deliveries in the logs",
            "Give each notification an idempotency key",
            "Drop repeats in the sender",
            "Watch the duplicate rate for a day",
        ),
    ),
    Plan(
        "Release 4.2",
        (
            "Merge the translations",
            "Freeze the branch",
            "Run the full test matrix",
            "Write the release notes",
            "Tag and build",
            "Publish to ten percent",
            "Publish to everybody",
        ),
    ),
)

# What is handed to a subagent: its label, and its own plan.
ERRANDS = (
    (
        "reviewer",
        Plan("Review of the change", ("Read the diff", "Look for missing error handling", "Write up the findings")),
    ),
    (
        "researcher",
        Plan(
            "What others ran into",
            ("Search the issue tracker", "Read the upstream changelog", "Summarise what applies to us"),
        ),
    ),
    (
        "tester",
        Plan("Slow suite", ("Set up a clean environment", "Run the slow suite", "Rerun those that failed")),
    ),
    (
        "writer",
        Plan("Help page", ("Gather the facts", "Draft the page", "Check the examples")),
    ),
)

REMARKS = (
    "Looking at this now.",
    "That explains what we saw in the logs.",
    "The tests pass locally; running the rest.",
    "Smaller than expected, going on.",
    "There is a second place that needs the same change.",
    "Reading the surrounding code first.",
    "Waiting for the build.",
    "Done with this part.",
)
