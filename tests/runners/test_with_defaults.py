import pickle

from msgspec.structs import replace

from segue.runners.fake import FakeLoader
from segue.runners.with_defaults import LoaderWithDefaults
from segue.types import ModelDefaults


def test_a_model_has_the_defaults_in_any_process() -> None:
    own = ModelDefaults(source="f", sampling={"temperature": 0.6, "order": ("top_k",)})
    loader = pickle.loads(pickle.dumps(LoaderWithDefaults(FakeLoader(), own)))
    loaded = loader()
    assert loaded.info == replace(FakeLoader()().info, defaults=own)
    loaded.runner.close()
