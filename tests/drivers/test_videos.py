"""Films as jobs: five servers that speak one dialect in five ways, each read as its profile says."""

from dataclasses import replace

import pytest

from reconciler.drivers import openai_videos as videos
from reconciler.drivers.asking import Call, Job, Unsealable
from reconciler.model.dialect import Profile
from reconciler.model.outcome import (
    Absent,
    Accepted,
    CancelAck,
    Cancelled,
    Done,
    Expired,
    LookupOutcome,
    Media,
    Pending,
    Rejected,
    Unknown,
)
from reconciler.model.sealed import Reply
from tests.kit import dialects
from tests.kit.vendors import MP4, PNG, send, vendor

CALL = Call("c", "create", {"prompt": "a ship", "seconds": "4", "fps": 24})
JOB = Job("c", "create", model="m-1")


def _submitted(profile: Profile, call: Call = CALL) -> Job:
    accepted = videos.read_submit(send(videos.seal_submit(call, profile)), call, profile)
    assert isinstance(accepted, Accepted), accepted
    assert accepted.expires_at == 1_900_000_000
    return replace(JOB, job_id=accepted.job_id, key=call.key, tag=call.tag)


def _looked_up(profile: Profile, job: Job, by: videos.By = "job-id") -> LookupOutcome:
    sealed = videos.seal_lookup(job, profile, by)
    assert sealed is not None
    return videos.read_lookup(send(sealed), job, profile, by)


@pytest.mark.parametrize("name", dialects.VIDEO_SERVERS)
def test_a_job_goes_from_its_submit_to_its_bytes_on_every_server(name: str) -> None:
    with vendor() as fake:
        profile = dialects.named(name, fake.base)
        job = _submitted(profile)
        assert fake.received[-1].fields["prompt"] == "a ship"
        queued = _looked_up(profile, job)
        assert isinstance(queued, Pending)
        assert (queued.status, queued.moving, queued.progress, queued.poll_after_s) == (
            "queued",
            False,
            0.0,
            4.0,
        )
        early = videos.seal_fetch(job, "video", profile)
        assert early is not None
        assert isinstance(videos.read_fetch(send(early), job, "video", profile), Pending)
        fake.jobs[job.job_id] |= {"status": "in_progress", "progress": 40}
        running = _looked_up(profile, job)
        assert isinstance(running, Pending)
        assert (running.moving, running.progress) == (True, 0.4)
        fake.jobs[job.job_id] |= {"status": "completed", "progress": 100}
        done = _looked_up(profile, job)
        assert isinstance(done, Done)
        assert done.result == {"job": job.job_id, "parts": ["thumbnail", "video"]}
        for part, media in (("video", Media("video/mp4", MP4)), ("thumbnail", Media("image/png", PNG))):
            sealed = videos.seal_fetch(job, part, profile)
            assert sealed is not None
            fetched = videos.read_fetch(send(sealed), job, part, profile)
            assert isinstance(fetched, Done)
            assert fetched.media == (media,)
        assert videos.seal_fetch(job, "spritesheet", profile) is None


@pytest.mark.parametrize(
    ("status", "by_server"),
    [
        ("cancelled", {"videos.router": Cancelled, "videos.inworld": Cancelled}),
        ("expired", {"videos.router": Expired}),
        ("NOT_START", {}),
        ("", {}),
        ("done", {}),
    ],
)
def test_report_10_a_status_that_is_not_listed_is_neither_running_nor_done(
    status: str, by_server: dict[str, type]
) -> None:
    with vendor() as fake:
        for name in dialects.VIDEO_SERVERS:
            profile = dialects.named(name, fake.base)
            job = _submitted(profile)
            fake.jobs[job.job_id]["status"] = status
            assert type(_looked_up(profile, job)) is by_server.get(name, Unknown)


def test_a_job_that_failed_is_over_and_says_its_code_and_nothing_else() -> None:
    with vendor() as fake:
        profile = dialects.named("videos.as-openai", fake.base)
        job = _submitted(profile)
        error = {"code": "out_of_luck", "message": "words of a vendor"}
        fake.jobs[job.job_id] |= {"status": "failed", "error": error}
        failed = _looked_up(profile, job)
    assert isinstance(failed, Rejected)
    assert (failed.code, failed.effect, failed.detail) == (
        "unavailable",
        "happened",
        "the job failed, out_of_luck",
    )


@pytest.mark.parametrize("manner", ["fails-once", "garbage", "list", "redirects", "status-403", "status-429"])
def test_a_question_that_fails_says_nothing_of_the_job(manner: str) -> None:
    with vendor() as fake:
        profile = dialects.named("videos.as-openai", fake.base)
        job = _submitted(profile)
        fake.manner = manner
        assert isinstance(_looked_up(profile, job), Unknown)
        fake.manner = ""
        assert isinstance(_looked_up(profile, job), Pending)


def test_a_job_that_is_not_known_is_absent_without_proof_and_one_that_is_gone_has_expired() -> None:
    with vendor() as fake:
        job = replace(JOB, job_id="video_404")
        assert _proof(_looked_up(dialects.named("videos.as-openai", fake.base), job)) is False
        assert _proof(_looked_up(dialects.named("videos.gateway", fake.base), job)) is True
        fake.manner = "expires"
        assert isinstance(_looked_up(dialects.named("videos.as-openai", fake.base), job), Expired)


def _proof(outcome: LookupOutcome) -> bool:
    assert isinstance(outcome, Absent)
    return outcome.proof


def test_a_job_is_found_by_key_and_by_tag_where_the_profile_says_so() -> None:
    call = replace(CALL, key="hdl1-" + "a" * 40, tag="hdl-tag")
    with vendor() as fake:
        profile = dialects.named("videos.gateway", fake.base)
        lost = replace(JOB, key=call.key, tag=call.tag)
        assert _proof(_looked_up(profile, lost, "key")) is True
        assert _proof(_looked_up(profile, lost, "tag")) is True
        job = _submitted(profile, call)
        assert _submitted(profile, call).job_id == job.job_id  # one key, one job
        _submitted(profile, replace(CALL, key="hdl1-" + "b" * 40, tag="another"))
        for by in ("key", "tag"):
            found = _looked_up(profile, lost, by)
            assert isinstance(found, Accepted)
            assert found.job_id == job.job_id
        fake.manner = "ignores-filter"
        found = _looked_up(profile, lost, "tag")
        assert isinstance(found, Accepted)
        fake.jobs["video_2"]["metadata"]["tag"] = "hdl-tag"
        assert isinstance(_looked_up(profile, lost, "tag"), Unknown)  # two are no answer
    plain = dialects.named("videos.as-openai")
    assert videos.seal_lookup(lost, plain, "key") is None
    assert videos.seal_lookup(lost, plain, "tag") is None


def test_report_13_only_a_cancel_that_is_bound_to_the_job_is_sent_and_only_proof_is_proof() -> None:
    for name in ("as-openai", "omni", "router", "gateway"):
        assert videos.seal_cancel(replace(JOB, job_id="video_1"), dialects.named(f"videos.{name}")) is None
    with vendor() as fake:
        profile = dialects.named("videos.inworld", fake.base)
        other, job = _submitted(profile), _submitted(profile)
        assert _cancelled(profile, job).answer == "proved"
        assert fake.jobs[other.job_id]["status"] == "queued"
        state = _looked_up(profile, job)
        assert isinstance(state, Cancelled)
        assert state.proved
        assert _cancelled(profile, job).answer == "refused"  # it says so once it has begun, and after
        fake.manner = "status-500"
        assert _cancelled(profile, other).answer == "unknown"
    assert videos.seal_cancel(JOB, profile) is None  # no id, no cancel


def _cancelled(profile: Profile, job: Job) -> CancelAck:
    sealed = videos.seal_cancel(job, profile)
    assert sealed is not None
    return videos.read_cancel(send(sealed), job, profile)


@pytest.mark.parametrize("job_id", ["..", "a/../b", "a?b=c", "a b", "é", "%2e"])
def test_a_job_id_is_one_segment_of_a_route_or_none(job_id: str) -> None:
    profile = dialects.named("videos.as-openai")
    if job_id == "..":
        with pytest.raises(Unsealable):
            videos.seal_lookup(replace(JOB, job_id=job_id), profile, "job-id")
        return
    sealed = videos.seal_lookup(replace(JOB, job_id=job_id), profile, "job-id")
    assert sealed is not None
    assert sealed.target.count("/") == 3
    assert "?" not in sealed.target


def test_a_submit_without_an_id_and_bytes_of_another_digest_are_unknown() -> None:
    profile = dialects.named("videos.as-openai")
    for body in (b"{}", b'{"id":""}', b'{"id":7}', b'{"id":"a\\nb"}'):
        assert isinstance(videos.read_submit(Reply(200, {}, body), CALL, profile), Unknown)
    job = replace(JOB, job_id="video_1")
    other = Reply(200, {"x-sha256": "00"}, MP4)
    assert isinstance(videos.read_fetch(other, job, "video", profile), Unknown)
    about_another = Reply(200, {}, b'{"id":"video_2","status":"completed"}')
    assert isinstance(videos.read_lookup(about_another, job, profile, "job-id"), Unknown)


def test_report_18_a_film_of_another_model_is_no_result() -> None:
    profile = dialects.named("videos.as-openai")
    reply = Reply(200, {}, b'{"id":"video_1","status":"completed","model":"m-2"}')
    found = videos.read_lookup(reply, replace(JOB, job_id="video_1"), profile, "job-id")
    assert isinstance(found, Rejected)
    assert found.reason == "ModelSubstituted"


def test_a_server_of_parts_is_sent_parts() -> None:
    with vendor() as fake:
        _submitted(dialects.named("videos.omni", fake.base))
        assert fake.received[-1].headers["content-type"].startswith("multipart/form-data")
        assert fake.received[-1].fields == {"prompt": "a ship", "seconds": "4", "fps": "24"}
