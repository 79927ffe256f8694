"""Every driver of the product by its name and version, as profiles name it. One tuple each; nothing registers
itself.
"""

from collections.abc import Mapping

from reconciler.drivers import (
    anthropic_messages,
    openai_audio,
    openai_chat,
    openai_embeddings,
    openai_images,
    openai_responses,
    openai_videos,
)
from reconciler.drivers.asking import CallDriver, JobDriver, ModelDriver

CALLS: Mapping[str, CallDriver] = {
    "anthropic-messages@1": anthropic_messages,
    "openai-audio@1": openai_audio,
    "openai-chat@1": openai_chat,
    "openai-embeddings@1": openai_embeddings,
    "openai-images@1": openai_images,
    "openai-responses@1": openai_responses,
}
JOBS: Mapping[str, JobDriver] = {"openai-videos@1": openai_videos}
MODELS: Mapping[str, ModelDriver] = {
    "anthropic-messages@1": anthropic_messages,
    "openai-chat@1": openai_chat,
    "openai-responses@1": openai_responses,
}
