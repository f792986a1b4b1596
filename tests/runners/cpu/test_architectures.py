"""Every architecture of the table: a tiny model with random weights here, on llama.cpp, and as bits written down."""

import hashlib
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from segue.engine.seam import Logits, Span
from segue.models.gguf import header
from segue.runners.cpu.anatomy.families import FAMILIES
from segue.runners.cpu.anatomy.support import supports
from segue.runners.cpu.products.processor import VARIABLE, possible, this_target
from segue.runners.cpu.runner import CpuRunner
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import DEEP, MODELS
from tests.support.models.tiny_writer import write

MOST_KL = 0.003
NEAR_TIE = 0.005
SEEDS, LENGTH, CONTINUED = 10, 40, 32
TEXT = random.Random(1).choices(range(256), k=90)
BITS: dict[str, str] = {
    "llama": "be0c9065a975106af3eb3d66b460c9130b051299cf07727562bbe17e273602fa",
    "llama with experts": "f0b1512a8c0a21c17643c24beca7b9af71e7d4a6a26554b7e0e87ca184410618",
    "llama with biases": "1a89483b60b65da2e8f69327a205d3c2c2128a0f5a6405def50cb4550812256f",
    "llama, linear": "895d7fd210f0bd90ecf64f27a42b2f6082c42ac7cdb78743747bb65d2e97388c",
    "llama, factors": "5e6375cdc34ef1eb380933bd1072ec8b2fa8bd1008bdff0d720b550a211a6be5",
    "llama, YaRN": "dcffa3a89ada9baaff1e27fad9d936f2fc6b44538944cc6ec61c51157aadee2e",
    "llama, long rope": "41f1ae6099a05186cebb11c43413ef3e6e2ed92444c4686de46ce97234dcdc3d",
    "qwen2": "16390188808fcf86f93ea8fd5af1d4cfe4b727c315b19ccba1dba3121557d7a3",
    "qwen2, biased head": "3803de5b734d459e1566c97d73beed62cf1e34a7bc77be6bf242601014fed89e",
    "qwen3": "340b2a31f0a92e281ffb4ac62ae97d0d42f5bde4125317f7ecf41ccd816c2715",
    "qwen2moe": "28fe92c045b2feead71ab13701188c20dd43750157e464235d0a87a57c84eee4",
    "qwen3moe": "9668479ae6ab311e68fbed37839a905f51d35dd67aaa709c4153dcb1d5a048ed",
    "gemma": "fb909c2e2d1876a5bf87f4fc3edd7afda8e6699715e80c23f25e5a3ce59dd663",
    "gemma2": "dfcb457a5c9ec576654ac619ad8a0daad5ce8bdf0cecaffae7d4026938ca1b96",
    "gemma3": "554ac639e1de2f2128134f932c42a06c5a77c80b0e8f31821fbb84ffd657fde7",
    "gemma3, own head, capped": "887345dfb8b7c91526e12ba799fc276a7b6f99e205750550d6cb5819696aa03d",
    "phi2": "c1e20a4b06e1cfb47d9230ca45322eef7db2ad3b36bcabbddcce3aee81a24dfa",
    "phi3": "abfabc0dee09ff00bb4a9b44a25b230c744194d9148f98c3267548030c9c1ef5",
    "phi3, long rope": "a0e597811891cba339bfc1e3e9d52429a700340dfb38202cb00f8b67c04cf178",
    "starcoder2": "b1c6e94700b19a731bc67d998e1b1840a57719c3785f41e40e605baa7dfb96e0",
    "stablelm": "15ec610edf995370863be5c4547b769da1a4b5ac10f0ad223f88389f63a22d17",
    "stablelm, parallel": "3d435f51b0b1a142c9e432bdc9cf2f310810b73f76e23880436020c4c3f0c830",
    "olmo2": "951d4b3996a761412122ba3f003068c5d5e018f83108aa401b436f9da7ebabed",
    "olmo2 with windows": "8cdd9abdad33573905e4e3c97b7e27b9229b55987489b6ccab2e491b25ad22a9",
    "granite": "7ff48bf5a5818095f35e49710e036d5ba41383fbff879d2705f227afbe6ac309",
    "granite with biases, long rope": "73b63d677be4157ed245cb3590cd603fb53008efdf5202f670d0133963efb2fa",
    "internlm2": "be0c9065a975106af3eb3d66b460c9130b051299cf07727562bbe17e273602fa",
    "command-r": "fb3b34918da95581351f7def8de0f5eedceb5caaae5d95aab91db169b3a3bc4f",
    "gpt2": "5559c7e511237dd78fc07ae3580e0843660474bacb0afe12c42160dcb7611eb8",
    "gptneox": "362fa2fc95a1c5eaf3c86cfce51c16d145add37d682c37f8d6e5f8b7933a11c5",
    "gptneox, sequential": "394f016cae068d61439ce1c226c8a450eff36cd2de5b2b8db9b9cf006f95c61e",
    "gpt-oss": "898e06bec6f6b722626e5de98d3add4ba2e27cd6552c8a16ec05f18021fcf8f1",
    "nemotron": "b917cbd1d2f66d2f30ab9564b6e07aa9bce99639ba51626859be4b1cc204993c",
    "arcee": "2d5bf6fdbaec3667801c8d768d75d5e6e784c1d4dcd26b7137d78f2179c40df2",
    "olmo2 with windows, each layer told": "3ed851756e1cebd610852f80221d2d27a1d8e19a51d2fd5a349c953ee3276591",
    "smollm3": "bb6d51c211831bb28123fdbd99ade5bce29c3da567b6c232dc8f176309fcfa81",
    "cohere2": "73d416b934f88f225a7e212f46c78c54ebfab0aeb0ce18ebc70ff8a20ea9a4f8",
    "glm4": "a9d7c13e518b434754e43ddcc952d26c35f3d8f61ab4ea714cdd882a645949bc",
    "exaone": "14183caf733d05b06c64b9361ecf7dc53899c30923409e550faabd4bc9d017dd",
    "exaone4": "669ab8805007351feb727fe9cc13d2bc69cf83bcdaf7e943bc5147730a82b833",
    "seed_oss": "e01f61e6307a97e904734c43ea319b9e2943369d3e96aaada27ac7e7464f323e",
    "ernie4_5": "366f4f320c5a2998b4673d3124c665c86b8353bedd47b3ccfed0b19d66030ea5",
    "starcoder": "9b49f24daea705e7642bb8a59f7344400fa091cc98d95358c365a9d922d2aa60",
    "orion": "6b6049e26aab0e8336d5b699a7ebc718568761e7252ab0b29a1cf91b3f981820",
    "xverse": "be0c9065a975106af3eb3d66b460c9130b051299cf07727562bbe17e273602fa",
    "granitemoe": "a7e222eb939c81206f029f7631618a1e1ab87befc5840073f72f0cd973420190",
    "granitemoe, shared expert": "fd2c372064b5d1b8855921ea2aaff87a86f11f6d289419359d863f6073b923c3",
    "olmoe": "ed5ce978da9c91ff75d906e48e599f9bd871133b11011ff23cfd9ef6feb7b3fb",
    "phimoe": "c577c49c47e8911cd98d4ae3a4e779964a3397df45c5b076763a2e4fa6c77234",
    "deepseek": "8e2985bf9d490d81c7f39132a71e29e83b4aadc5c53a16a319486e544b4aac79",
    "bailingmoe": "31b978b5f3f2b8ab222f246d6a422467b7ccdf8a79359de19fbf4673e87ffa92",
    "dots1": "bfeae4b072ab249f3d4e64b6b1389be5fde76f108930763fbba5f98582e53409",
    "glm4moe": "4d6177ffbaf30e72df399e8d8e98d5d85d822e57384879c3907658f0f1575424",
    "glm4moe, normed heads, drafts": "fc3208be96ef74300f0fb0b20eb84ac87da60a9c31575fc179ba6ffcc8fd4238",
    "ernie4_5-moe": "80a4c352dd4ad4ed7901dd8537d7ab59fe19d2468f8f7986cb2a0c7aa4e17ed9",
    "mistral3": "a10cfe11ab4df60c0eaef91c499cd98e07e8b64866bfbb4abeef8d7b86865d83",
    "minicpm": "96ca9cafbbe0383dc65b50870885293d771a116009e16e4bb0eed4b191a71bad",
    "falcon": "97c06258b9289e04c0d13e650ea21551b032c2ec302a65572170256f0a9f498e",
    "hunyuan-dense": "dc120e95a63750babcca924026996105d897e449b37386ada42faa171f309088",
    "hunyuan-moe": "0173438a3f17e672be73489e6f31d8c3b68383dfaf846cff956cc8ec11e0092c",
    "maincoder": "536fe5074ae2684699288f51fa4a0d7ec87a9675a1e7fb918aee6f9ff5fe9e00",
    "qwen": "dec4129d2c4f1fc0479e4bde3f4b0b066e8d8648e21317bf3677c030673e7f1b",
    "qwen3vl": "963596f7f222da3629a8d53e001f9389fdd3c6a31c72a37e6237a540a9730998",
    "qwen3vlmoe": "b59d22d300e33044d198091fc50e3ff9977e89c602a6cfea8f74be9e64205caf",
    "exaone-moe": "8988eb429936ec037344da0f81b5ec21763a91a2624036413804b0a2e4016b9f",
    "mellum": "8b9001fccaa388168e5bbaafc5c1972bb67d553d49723877742a5ef39d30f79c",
    "minimax-m2": "bdf410fec712fde1d06e1ee6f2909202bcc5ed9b347eee238674812578741790",
    "qwen2vl": "9185c54454963d057de04349b80c8bd685fa17ff4cd6dda2ed9c14c605919b8b",
    "gemma4": "e1a3041842e20617140a20831da23b1be12734a4a3aa6f4ca312da4859c28903",
    "gemma4, embeddings of layers": "d9a841b7c9dcf57283106d4613ddfc24da8eef547ecf5f58cb1f79e1c2aa5e56",
    "gemma4 with experts": "f79782e578b5f5dd585374b8f9d13d2d61125c2141a60ed3c823514efd33d908",
}
# The same with matrices of Q8_0: what products take is then rounded after every norm and activation.
BITS_OF_Q8: dict[str, str] = {
    "llama": "a43f45b469d2736273a3299fbf22877a3eb854d3d3e60e4e7d0c12637f999ab2",
    "llama with experts": "3908cb78c2f294ed9bc4064701038bd56e0abe8a700ab31f2822159fd8d72385",
    "llama with biases": "25001255d2bd93760e8c797c20e66f7c9b41719bca771d2e2bfc604f9f1b16cd",
    "llama, linear": "baea3bd1acce9e2415de5a3310d8660255e300c209ec451c888fd0a10ba9248e",
    "llama, factors": "9f8ffdae3ddc35247d4b8a36c284b4b916f33caf5d9e7fad301c2dd03a318ca6",
    "llama, YaRN": "93fef025be10acf500653fae7271b4d684c1e8e1c49d9d62ab6411a11c8c9802",
    "llama, long rope": "bab95c69212657abac0c61b3170cd1d4866d146c057957528aa14251cb0a9cb4",
    "qwen2": "0530ac2ba0c49a45c36a67f0349035628baacf82b2bb8feff034b1d5f5a80e87",
    "qwen2, biased head": "8e2dec7a82f0aca4618ba64ec8559e00eb5e4e35419530ddfd0c4e2be5326e32",
    "qwen3": "5fe4106e7ec68e069a116c677efd0ed4417060cebde5333bab3dae48f7a7a836",
    "qwen2moe": "c9d19c70cc3dbc13625d02f076edadbcaa646947d0716833121371f8be8a9ae3",
    "qwen3moe": "c55cb64827dd7090873db9a27d080c60f887a8361808cc8cb6c15517500c7c12",
    "gemma": "8c84b144845d14143dea9b93357fa3b56e26e15de20501094ae0f5e46260d57d",
    "gemma2": "0ceff0bdb47bd95e73820840e2bb2d397fd336234c664e512c8718da9caad907",
    "gemma3": "e8b1b641281ead91f2e31255be366acf2452b22c06ecd1c1d979ab4c0842e77b",
    "gemma3, own head, capped": "81bad89c53568580f6551b70cc8769bb66aea3be201b1e7a8108106c7c437f3a",
    "phi2": "0bf73e7d7774e71566bc9586ef77bf2141bd69b98cc8343f2e582d0363bafe4a",
    "phi3": "d8e1669278c78d56795c4dda49ffe9105a7e83638387253c51f7449ea15a2a39",
    "phi3, long rope": "b3df6944a3c8c5809436244fe57759362620da24881a25f20547e7f7406bf692",
    "starcoder2": "2632afa8f34f89b214cfcbd31ed9b1199e51c46b40c8927bc7ad95e280cbaf0f",
    "stablelm": "a4552113ab930e0b2ada1353d6129b024da6d9bb2f5589e9149190cb6547b034",
    "stablelm, parallel": "3d97697c34114cd4b369f928ed2ed595c698d5a25d1c6257114b741eaa6ae0c8",
    "olmo2": "2f77d8afeb51cf23984a9150a9b0ca3606298997307cdcfbbbc2c1dc4d93cf78",
    "olmo2 with windows": "c0a35303f1240f4533e01f91e7e393c78311b70e5a10340978042155e58ce2ca",
    "granite": "b1c52611a84e6ff7c1cf7ab329c8a97172122ddc7f4c5126a2dd20072fb84448",
    "granite with biases, long rope": "8a006c0cc7d17a6d72a8947fa3d642ccfbb5664118adf88dee8ef6b929de5d99",
    "internlm2": "a43f45b469d2736273a3299fbf22877a3eb854d3d3e60e4e7d0c12637f999ab2",
    "command-r": "71c3c7a0e1cb9746ad936bdd9f31f283b2c9b59c7a0a343f19f89f375bd61210",
    "gpt2": "51c9848a558be02b2d8a33048642e4c8a0c3ea154ac8327571fca71eaef71718",
    "gptneox": "2fc808316a2db6fc670fcf32e0c02c24b5e4ef6d0b362e251ce52a364366a4ec",
    "gptneox, sequential": "674ecbfe1fe0f59190de3382fadf36c947a2226bc5917ae953df9110b0c35bb8",
    "gpt-oss": "c667a40f554b1b0f015fec03bacffe7d05d52f38c94d599bbedb08ebf48cf927",
    "nemotron": "7da7bd4972a333636a233b3cb1b91f42e5c4a4b9330bf28cd7c9ba38dd3a79ca",
    "arcee": "6bc1ae07f863de3d2122af4754fcb831bd88491a86c4fb4e91c12dfab23aede5",
    "olmo2 with windows, each layer told": "07ae8f638e74d9c99b6416ca44950e3fb0d826fbbc136f46810e43ca4f745d2d",
    "smollm3": "92e129a31c0a329ac638b4dd87f8b2fdf2f4dac490cabe82081ee76e24f066a7",
    "cohere2": "3c91be84b9b0b166910c26deb189785229d51c0b682c8ebc8adcd6cc860f16ad",
    "glm4": "e436be354bc25c131375b808eacb4dbb1908003154d403d488f3a5b4e08bcc00",
    "exaone": "5ab39c31c69d38e1b67820ebe903fef1b87118deb033dcdec8ce3e40cfa93bcc",
    "exaone4": "05d09c23f62ac36abf239a78f1a00a3063f8fe9dcaafc5ba63f31770c33b4c6d",
    "seed_oss": "989564ee484ca8ba8e7fb70ff8ece96ee1b65e15ecac4f73ec2bc3379e524777",
    "ernie4_5": "1cd9affaf996be97dfadb6d354ad7f0d44fd1f5e05f1afe2787fe7f66d6eb969",
    "starcoder": "387f15f26b6d0adab886699888a9837fbf9e1020a16efbb0c406a4c1e46be8bf",
    "orion": "9c03024c824b0372dbd8d179d2bd39e7bcb0a6b101708439d8a74c320dbb860d",
    "xverse": "a43f45b469d2736273a3299fbf22877a3eb854d3d3e60e4e7d0c12637f999ab2",
    "granitemoe": "9431bf553962cd574399fb0151c60e33f2fbe8a1975ee5a1ef56c5b905d83f86",
    "granitemoe, shared expert": "2bec13b614659c08f7d07d3622c02c1fdd7a860f7518ba3dabd43aa09837d1ac",
    "olmoe": "fbc307986326afa51ce3df4e5d35287f4ae39ba6d134b1ee0366efc17540ca8f",
    "phimoe": "6a7cc52ebafd37e58c9edf1e296fd04c88d219a2eb57610d2a009d66e520aa33",
    "deepseek": "0d1a64fd607bd911447572a856433858c0683d4cae142674c4c6d5bdf98e516b",
    "bailingmoe": "978e6cd9796853743adb9ab93e175a2daa7445e9e079df91606f69a39afefeca",
    "dots1": "6b81f6f4a4630b952de5b8e0aee0f47f4dbffbc3c32943cbd14cebd51e5caa8c",
    "glm4moe": "c7fc40a13ce77ffcf99c42809cedbe8872fa69a3dd434e2eefe715d56db25e47",
    "glm4moe, normed heads, drafts": "85defee0109965d937d4f0c199a5e149ead4bd898dd6e165e6738acb2e1a8fcc",
    "ernie4_5-moe": "7309f37a230983dce74ab8d2ac4ed9369a7d48b8d68113e35822517b9072dc9e",
    "mistral3": "1f5effea8d05db5b0517adeddeeb4a8d8a50b3ca98dabfe6e7699b012a0cae43",
    "minicpm": "cc93489746f17f10a1e816358bdda25a89874e98a9dae05aab16ca72304d45b4",
    "falcon": "836f2c18a1dcfc806f019680c302a88919c9dff1d8ab8dffbadb78038d0516a6",
    "hunyuan-dense": "5b935e509ca358c55dfd97aace91ba5ce5d881f00eede6587b5248a9742dc1d9",
    "hunyuan-moe": "d72930678da41de4962ad80c2e79a5b21672ad8b0c786dba236a5c04c20fdef6",
    "maincoder": "da93ad6f9b8a4c26749189a465e8fabaec38d6012605fc85a147b67fcc19e8d5",
    "qwen": "eeffd99a3cabdd8a23b92982fa428ad312c07852f85f51082183167e70820b6e",
    "qwen3vl": "3b706ccb1e6771cef99a2b6943d60836386b98c3e643a0755b28c70e964f6a7f",
    "qwen3vlmoe": "b00c424024ce409fb7c0dd75b812290641355bbcf730063a4acfcd5f4d11e1cf",
    "exaone-moe": "a1030496b9c7cb7cac982901d25a0581f87cb5f329d3b08ce39b42fac0127a1c",
    "mellum": "eb29e67b0e2fdf888a412ca55ed481483bb45204227ba78e1922e016f8929dde",
    "minimax-m2": "5cc149845b466483fac4bf18c6ca7cbaf19d766432b8d2e30b1650432e20efb1",
    "qwen2vl": "aa017db1b31b0d6e33699fdeaec4ae698ecd02a8feb187fc0b0b69f468469221",
    "gemma4": "fe3cd0b0cd71c41bd9f2aa61608a11e44cfed98f8edc524aa3d175baac42cb1e",
    "gemma4, embeddings of layers": "a6516b7ad4209bb72288fe99d3ff51fca77745a3b91a85e3302a69ecabb1c972",
    "gemma4 with experts": "39ddc1f7969bb4047c7747de08fc3f783b9f77a6c48cb18755af8bd24472e479",
}


def divergences(truth: Logits, other: Logits) -> NDArray[np.float64]:
    p, q = (_log_probabilities(logits.astype(np.float64)) for logits in (truth, other))
    found: NDArray[np.float64] = (np.exp(p) * (p - q)).sum(-1)
    return found


def _log_probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max(-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def read_and_continue(
    runner: CpuRunner | LlamaRunner, prompt: list[int], num_drawn: int = CONTINUED
) -> tuple[Logits, Logits]:
    """Logits of a prompt's tokens, and those of its most likely continuation."""
    logits = runner.decode([Span(0, prompt, 0, len(prompt))]).copy()
    steps = [logits[-1]]
    for place in range(len(prompt), len(prompt) + num_drawn - 1):
        steps.append(runner.decode([Span(0, [int(steps[-1].argmax())], place, 1)])[0].copy())
    runner.free(0)
    return logits, np.stack(steps)


def compare(path: Path, seed: int, num_drawn: int = CONTINUED) -> tuple[float, float | None]:
    """The mean divergence from llama.cpp on a text of this seed, and where continuations differ: by how much
    llama.cpp prefers its token there to the next best.
    """
    prompt = random.Random(100 + seed).choices(range(256), k=LENGTH)
    runner = load(path, threads=1, num_slots=1, max_rows=64, kv_bytes=4 << 20)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32", num_slots=1, max_rows=64)
    mine, my_steps = read_and_continue(runner, prompt, num_drawn)
    truth, its_steps = read_and_continue(judge, prompt, num_drawn)
    runner.close()
    judge.close()
    divergence = float(divergences(truth, mine).mean())
    differs = my_steps.argmax(-1) != its_steps.argmax(-1)
    if not differs.any():
        return divergence, None
    second, best = np.sort(its_steps[differs.argmax()])[-2:]
    return divergence, float(best - second)


@pytest.fixture(scope="module", params=MODELS)
def tiny(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, CpuRunner]]:
    path = write(tmp_path_factory.mktemp("tiny") / "x.gguf", MODELS[request.param])
    runner = load(path, threads=1)
    yield request.param, path, runner
    runner.close()


def test_every_architecture_has_a_tiny_model() -> None:
    assert {model.architecture for model in MODELS.values()} == {*FAMILIES}


@pytest.mark.parametrize("name", MODELS)
def test_ten_models_of_each_agree_with_llama_cpp(tmp_path: Path, name: str) -> None:
    """Ten seeds of weights, with a text each."""
    found = [
        compare(write(tmp_path / "x.gguf", MODELS[name], seed=seed), seed) for seed in range(SEEDS)
    ]
    assert np.mean([divergence for divergence, _ in found]) <= MOST_KL
    margins = [margin for _, margin in found if margin is not None]
    assert len(margins) <= 1
    assert all(margin < NEAR_TIE for margin in margins)  # two tokens are as good as equal


@pytest.mark.parametrize("name", DEEP)
def test_deep_models_agree_with_llama_cpp(tmp_path: Path, name: str) -> None:
    divergence, margin = compare(write(tmp_path / "x.gguf", DEEP[name]), seed=0, num_drawn=8)
    assert divergence <= MOST_KL
    assert margin is None


def test_bits_are_those_of_every_machine_however_a_text_is_cut(
    tiny: tuple[str, Path, CpuRunner],
) -> None:
    name, _, runner = tiny
    whole = runner.decode([Span(0, TEXT, 0, len(TEXT))]).copy()
    beside = [Span(1, TEXT[5:35], 0, 1), Span(2, TEXT[50:], 0, 1)]
    rows = []
    for start, end in pairwise([0, 1, 2, 9, 50, 51, len(TEXT)]):
        spans = [Span(3, TEXT[start:end], start, end - start)]
        others = beside if start == 9 else []
        rows.append(runner.decode([*others, *spans])[len(others) :].copy())
    for slot in range(4):
        runner.free(slot)
    np.testing.assert_array_equal(np.concatenate(rows), whole)
    assert hashlib.sha256(whole.tobytes()).hexdigest() == BITS[name]


@pytest.mark.parametrize("name", MODELS)
def test_bits_of_quantised_weights_are_those_of_every_machine(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name], kind=gguf.GGMLQuantizationType.Q8_0)
    runner = load(path, threads=1)
    logits = runner.decode([Span(0, TEXT, 0, len(TEXT))])
    assert hashlib.sha256(logits.tobytes()).hexdigest() == BITS_OF_Q8[name]
    runner.close()


@pytest.mark.parametrize(
    "name",
    [
        "gpt-oss",
        "gemma2",
        "qwen2moe",
        "phi2",
        "gemma4, embeddings of layers",
        "gemma4 with experts",
    ],
)
def test_bits_do_not_depend_on_threads_and_flavours(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name])
    for flavour in possible():
        runner = load(path, target=this_target({VARIABLE: flavour.name}), threads=2)
        logits = runner.decode([Span(0, TEXT, 0, len(TEXT))])
        assert hashlib.sha256(logits.tobytes()).hexdigest() == BITS[name]
        runner.close()


@pytest.mark.parametrize(
    "name", ["llama with experts", "qwen2moe", "phi3", "gpt2", "gemma4 with experts"]
)
def test_quantised_weights_agree_with_llama_cpp(tmp_path: Path, name: str) -> None:
    """Experts and fused matrices are cut out of the file's tensors."""
    path = write(tmp_path / "x.gguf", MODELS[name], kind=gguf.GGMLQuantizationType.Q8_0)
    runner = load(path, threads=1, kv_bytes=4 << 20)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32")
    span = Span(0, TEXT, 0, len(TEXT))
    assert divergences(judge.decode([span]), runner.decode([span])).mean() < 0.01
    judge.close()
    runner.close()


@pytest.mark.parametrize("name", ["gemma2", "gpt-oss", "gemma4", "gemma4, embeddings of layers"])
def test_windows_reach_over_segments_of_attention(tmp_path: Path, name: str) -> None:
    tiny = MODELS[name].with_settings(context_length=1024, attention__sliding_window=300)
    path = write(tmp_path / "x.gguf", tiny)
    tokens = random.Random(2).choices(range(256), k=700)
    runner = load(path, threads=2, kv_bytes=8 << 20)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32", max_rows=1024)
    truth = judge.decode([Span(0, tokens, 0, len(tokens))]).copy()
    rows: dict[int, Logits] = {}
    for size in (256, 37):
        for start in range(0, len(tokens), size):
            chunk = tokens[start : start + size]
            logits = runner.decode([Span(0, chunk, start, len(chunk))]).copy()
            for i, row in enumerate(logits, start):
                np.testing.assert_array_equal(row, rows.setdefault(i, row))
        runner.free(0)
    mine = np.stack([rows[i] for i in range(len(tokens))])
    assert divergences(truth, mine).mean() <= MOST_KL
    judge.close()
    runner.close()


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("gpt-oss", {"attention.sliding_window": -1}, "sliding_window is -1, not a count"),
        ("granite", {"rope.scaling.finetuned": False}, "positions do not turn"),
        ("qwen3moe", {"expert_weights_scale": 2.5}, "settings it does not know: expert_weights"),
        ("gemma3", {"attn_logit_softcapping": 30.0}, "does not know: attn_logit_softcapping"),
        ("phi3", {"rope.scaling.type": "su"}, "scaled by 'su'"),
        ("qwen2moe", {"expert_feed_forward_length": 40}, "experts are 40 wide"),
        ("gpt2", {"attention.max_alibi_bias": 8.0}, "does not know: attention.max_alibi_bias"),
        ("mistral3", {"rope.scaling.yarn_log_multiplier": -4.0}, "yarn_log_multiplier is -4.0"),
        ("minicpm", {"residual_scale": 0.0}, "does not say minicpm.residual_scale"),
        ("dots1", {"expert_gating_func": 1}, "shares of experts are not by sigmoid"),
        ("glm4moe", {"expert_group_count": 4}, "experts are chosen by groups"),
        ("ernie4_5-moe", {"interleave_moe_layer_step": 2}, "between those with experts have none"),
    ],
)
def test_what_the_table_does_not_know_is_refused(
    tmp_path: Path, name: str, settings: dict[str, float], reason: str
) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name])
    found = header(path)
    own = {f"{found.architecture}.{key}": value for key, value in settings.items()}
    changed = type(found)(
        found.architecture,
        {**found.metadata, **own},
        found.array_lengths,
        found.tensors,
        found.num_bytes,
    )
    assert reason in (supports(changed) or "")


def test_learned_positions_bound_the_context(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", MODELS["gpt2"])
    runner = load(path, context_length=4096, kv_bytes=8 << 20)
    assert runner.capabilities.context_length == 512
    runner.close()
