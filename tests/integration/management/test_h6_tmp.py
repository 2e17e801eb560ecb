import io, pytest
from django.core.management import call_command
from django.utils import timezone
from buildqueue.models import JobEvent
from tests.browser import scene
from buildqueue.models import BuildJob
from tests.integration.management.test_notices import make_notice
@pytest.mark.django_db
def test_x():
    job = scene.build()
    make_notice("a", error_msg="answered 500", tries=15, job_id=job.pk)
    def run(*a):
        out = io.StringIO(); call_command("buildqueue", *a, stdout=out); print("$", *a); print(out.getvalue())
    run("list", "--limit", "8"); run("show", str(job.pk)); run("notices")
    run("show", str(BuildJob.objects.get(status="waiting_input").pk))
    run("actions", str(BuildJob.objects.get(status="waiting_approval").pk))
