"""Text files, as bytes and as text for the model. Legacy encodings are declared by the file or guessed from its bytes.
A guess is used only for display, never for writing. Edits preserve all other bytes."""

import codecs
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

from ebbtide.tools import files
from ebbtide.tools.files.byte_order import BOMS
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.plain_text import common_prefix_length

Newline: TypeAlias = Literal["\n", "\r\n", "\r"]

_SURROGATE = regex("[\ud800-\udfff]")

_NON_ASCII_RUN = regex(r"[^\x00-\x7f]+")
_BROKEN_BYTE = regex("[\udc80-\udcff]")
_MIN_VALID_PER_BROKEN = 10
"""A declared encoding is accepted only if there are at least this many valid characters for each undecodable byte."""
_MAX_CHARACTER_BYTES = 4
"""Maximum number of bytes that a character takes in any encoding."""

_MAGIC = (
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a zip archive (or a document or package in that format)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"%PDF-", "a PDF document"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"\xca\xfe\xba\xbe", "a Java class or Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"MZ", "a Windows program"),
    (b"\0asm", "a WebAssembly module"),
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A change to text: the range from `start` to `end` is replaced with `text`."""

    start: int
    end: int
    text: str


class EncodingError(Exception):
    """Raised if the file's encoding cannot represent the text."""


class GuessedEncodingError(EncodingError):
    """Raised if the encoding is only a guess, so that the bytes to write are uncertain."""


@dataclass(frozen=True, slots=True)
class TextFile:
    text: str
    """The decoded text, without a byte order mark and with its original line endings. Undecodable bytes become lone
    surrogates."""
    codec: str = "utf-8"
    bom: bytes = b""
    newline: Newline = "\n"
    """The most common line ending."""
    raw: bytes = b""
    """The bytes that `text` was decoded from."""
    is_guess: bool = False
    """Whether `codec` is only a guess."""

    @property
    def normalised_text(self) -> str:
        r"""The text with every line ending as `\n`, for matching and display."""
        if self.newline == "\r":
            return self.text.replace("\r", "\n")
        return self.text.replace("\r\n", "\n")

    def with_changes(self, changes: Sequence[Replacement]) -> "TextFile":
        """Apply changes, which must be in order and must not overlap. Their offsets refer to `normalised_text`. All
        other bytes are preserved. Raises `EncodingError`."""
        crlf_offsets = self._crlf_offsets()
        if crlf_offsets and "\n" in self.text.replace("\r\n", ""):
            normalised_text = self.normalised_text
            changes = [
                minimal_change for change in changes for minimal_change in _minimal_changes(normalised_text, change)
            ]
        text = list[str]()
        raw = list[bytes]()
        offset = 0
        byte_offset = 0
        for change in changes:
            start = change.start + bisect_left(crlf_offsets, change.start)
            end = change.end + bisect_left(crlf_offsets, change.end)
            byte_start = byte_offset + self._byte_length(offset, start, byte_offset)
            byte_end = byte_start + self._byte_length(start, end, byte_start)
            self._require_whole_characters(byte_start, byte_end)
            new_text = with_newline(change.text, self.newline)
            text += [self.text[offset:start], new_text]
            raw += [
                self.raw[byte_offset:byte_start],
                self._spliced_bytes(self.text[start:end], self.raw[byte_start:byte_end], new_text),
            ]
            offset, byte_offset = end, byte_end
        text.append(self.text[offset:])
        raw.append(self.raw[byte_offset:])
        return self._with_content("".join(text), b"".join(raw))

    def with_text(self, text: str) -> "TextFile":
        """Return the file with new text, using the most common line ending of the old text. Raises `EncodingError`."""
        text = with_newline(text, self.newline)
        return self._with_content(text, self._encode_checked(text))

    def _with_content(self, text: str, raw: bytes) -> "TextFile":
        return TextFile(text, self.codec, self.bom, self.newline, raw, self.is_guess)

    def _byte_length(self, start: int, end: int, byte_start: int) -> int:
        """Return the length of `text[start:end]` in bytes. Its first byte is at `byte_start`. Raises
        `EncodingError`."""
        characters = self.text[start:end]
        size = len(characters.encode(self.codec, _error_handler(self.codec)))
        if self.raw[byte_start : byte_start + size].decode(self.codec, _error_handler(self.codec)) != characters:
            raise EncodingError(f"it is unclear which of its bytes are which characters in {self.codec}")
        return size

    def _spliced_bytes(self, old: str, raw: bytes, new: str) -> bytes:
        """Encode the new text, but keep the original bytes of the prefix and suffix that it shares with the old
        text."""
        prefix = old[: common_prefix_length(old, new)]
        suffix_length = common_prefix_length(old[len(prefix) :][::-1], new[len(prefix) :][::-1])
        suffix = old[len(old) - suffix_length :]
        prefix_size, suffix_size = (
            len(affix.encode(self.codec, _error_handler(self.codec))) for affix in (prefix, suffix)
        )
        self._require_known_encoding(new)
        middle = self._encode(new[len(prefix) : len(new) - suffix_length])
        return raw[:prefix_size] + middle + raw[len(raw) - suffix_size :]

    def _encode_checked(self, text: str) -> bytes:
        self._require_known_encoding(text)
        return self._encode(text)

    def _require_known_encoding(self, new: str) -> None:
        """Check that the new text can be encoded safely. Raises `GuessedEncodingError` for non-ASCII text if the
        encoding is a guess, and `EncodingError` for a lone surrogate that does not stand for a byte of the file."""
        if any(surrogate not in self.text for surrogate in _SURROGATE.findall(new)):
            raise EncodingError("half a surrogate pair is not a character")
        if self.is_guess and not new.isascii():
            known_runs = set(_NON_ASCII_RUN.findall(self.text))
            new_run = next((run for run in _NON_ASCII_RUN.findall(new) if run not in known_runs), None)
            if new_run is not None:
                raise GuessedEncodingError(f"to add {_quote(new_run)}")

    def _require_whole_characters(self, *offsets: int) -> None:
        """Raise `GuessedEncodingError` if an offset in `raw` may be inside a character, which is possible if the
        encoding is a guess."""
        for offset in offsets if self.is_guess else ():
            if self.raw[max(offset - _MAX_CHARACTER_BYTES + 1, 0) : offset].isascii():
                continue
            start, end = self.raw.rfind(b"\n", 0, offset) + 1, self.raw.find(b"\n", offset)
            line = self.raw[start : end if end >= 0 else None]
            for codec in (*MULTIBYTE_CODECS, "big5hkscs"):
                is_split = _try_decode(line[: offset - start], codec) is None and _try_decode(line, codec) is not None
                if is_split and _try_decode(self.raw, codec) is not None:
                    raise GuessedEncodingError("to change part of what may be one character")

    def _encode(self, text: str) -> bytes:
        try:
            return text.encode(self.codec, _error_handler(self.codec))
        except UnicodeEncodeError as error:
            raise EncodingError(f"{self.codec} lacks {_quote(text[error.start : error.end])}") from error

    def _crlf_offsets(self) -> list[int]:
        """Return the offsets, in `normalised_text`, of line endings that were originally CR LF."""
        if self.newline == "\r":
            return []
        offsets: list[int] = []
        offset = self.text.find("\r\n")
        while offset >= 0:
            offsets.append(offset - len(offsets))
            offset = self.text.find("\r\n", offset + 2)
        return offsets

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return self.bom + self.raw


def decode_file(raw: bytes, encoding: str = "") -> TextFile:
    """Decode the bytes of a file such that encoding restores them. `encoding`: an encoding named by the model or the
    user. It is ignored if the bytes are certainly UTF-8 or UTF-16."""
    for bom, codec in BOMS:
        if raw.startswith(bom):
            body = raw[len(bom) :]
            text = _try_decode(body, codec)
            if text is not None:
                return TextFile(text, codec, bom, most_common_newline(text), body)
    codec, is_guess = _detect_codec(raw, encoding)
    text = raw.decode(codec, _error_handler(codec))
    return TextFile(text, codec, b"", most_common_newline(text), raw, is_guess)


def _detect_codec(raw: bytes, encoding: str) -> tuple[str, bool]:
    """Detect the codec of bytes without a byte order mark, and tell whether it is a guess."""
    text = raw.decode("utf-8", "surrogateescape")
    valid_count, broken_count = _count_non_ascii(text)
    if not broken_count and not raw.isascii():
        return "utf-8", False
    if encoding and _decodes_with(raw, encoding, 1):
        return encoding, False
    declared_codec = find_declared_encoding(raw)
    if declared_codec and _decodes_with(raw, declared_codec, _MIN_VALID_PER_BROKEN):
        return declared_codec, False
    if valid_count >= 2 * broken_count:
        return "utf-8", False
    codec = guess_encoding(raw)
    return codec if _decodes_with(raw, codec, 0) else "latin-1", True


def _decodes_with(raw: bytes, codec: str, min_valid_per_broken: int) -> bool:
    """Whether the codec decodes the bytes, with at least `min_valid_per_broken` valid characters per undecodable
    byte."""
    try:
        valid_count, broken_count = _count_non_ascii(raw.decode(codec, _error_handler(codec)))
    except UnicodeDecodeError:
        return False
    return valid_count >= min_valid_per_broken * broken_count


def _count_non_ascii(text: str) -> tuple[int, int]:
    """Count the non-ASCII characters and the undecodable bytes."""
    if text.isascii():
        return 0, 0
    broken_count = len(_BROKEN_BYTE.findall(text))
    return sum(map(len, _NON_ASCII_RUN.findall(text))) - broken_count, broken_count


def _quote(text: str) -> str:
    return repr(text[:20])


def most_common_newline(text: str) -> Newline:
    crlf_count = text.count("\r\n")
    lf_count = text.count("\n") - crlf_count
    if crlf_count == lf_count == 0 and "\r" in text:
        return "\r"
    return "\r\n" if crlf_count > lf_count else "\n"


def with_newline(text: str, newline: Newline) -> str:
    r"""Convert `\n` and `\r\n` line endings to `newline`."""
    return text.replace("\r\n", "\n").replace("\n", newline)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be sent or printed."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def binary_kind(raw: bytes) -> str | None:
    """Return the kind of binary file. None for a text file."""
    for magic, kind in _MAGIC:
        if raw.startswith(magic) and (b"\0" in raw[:8192] or not raw[:512].isascii()):
            return kind
    if raw.startswith(tuple(bom for bom, _ in BOMS)):
        return None
    return "binary data" if b"\0" in raw[:8192] else None


def _minimal_changes(text: str, change: Replacement) -> Iterator[Replacement]:
    """Split a change into smaller ones, so that the lines it leaves alone keep their line endings."""
    old = text[change.start : change.end].split("\n")
    new = change.text.split("\n")
    starts = [change.start, *accumulate((len(line) + 1 for line in old), initial=change.start)][1:]
    for region in files.line_diff.find_differing_regions(old, new):
        lines, new_lines = old[region.old_start : region.old_end], new[region.new_start : region.new_end]
        start = starts[region.old_start]
        if len(lines) == len(new_lines):
            line_starts = [starts[index] for index in range(region.old_start, region.old_end)]
            yield from (
                Replacement(line_start, line_start + len(line), new_line)
                for line_start, line, new_line in zip(line_starts, lines, new_lines, strict=True)
            )
        elif region.old_end < len(old):
            end = starts[region.old_end]
            yield Replacement(start, end, "".join(line + "\n" for line in new_lines))
        elif region.old_start:
            yield Replacement(start - 1, change.end, "".join("\n" + line for line in new_lines))
        else:
            yield Replacement(change.start, change.end, change.text)


def _try_decode(raw: bytes, codec: str) -> str | None:
    try:
        return raw.decode(codec)
    except UnicodeDecodeError:
        return None


def _error_handler(codec: str) -> str:
    return "strict" if codec.startswith(("utf-16", "utf-32")) else "surrogateescape"


MULTIBYTE_CODECS = ("gb18030", "cp950", "cp932", "euc_jp", "cp949")
"""Encodings in which an ASCII byte may be the second half of a character."""
MAX_SAMPLE_BYTES = 4_096
"""Maximum number of bytes sampled for a guess, from lines with non-ASCII bytes."""
MAX_DECLARED_BYTES = 2_048
"""Number of bytes at the beginning of a file that are searched for a declared encoding."""

_NON_ASCII_LINE = regex(rb"[^\r\n]*[\x80-\xff][^\r\n]*")
_WORD = regex(r"[^\W\d_]+")
_DECLARATION = regex(
    rb"""\A(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)"""
    rb"""|\A(?:[^\n]*\n)?[^\n]*-\*-[^\n]*?\bcoding:[ \t]*([-\w.]+)[^\n]*-\*-"""
    rb"""|\bvim?:[^\n]*\b(?:fileencoding|fenc)=([-\w.]+)"""
    rb"""|\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([-\w.:]+)"""
    rb"""|\A@charset\s+"([-\w.:]+)"|(?i:<meta[^>]{0,300}?charset\s*=\s*["']?([-\w.:]+))"""
)
_SUPERSET_CODECS = {"gb2312": "gbk", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "cp950"}
"""Maps an encoding to the larger one that editors actually use under its name."""

_SIMPLIFIED_CHINESE = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现"
    "返回值设置获取数据文件名字符串错误类型参函列表结果户输入测试使默认创建删除更新查询请求加载初始化配间长度节点线程按钮添修改检查处理保存读打开关闭"
)
_TRADITIONAL_CHINESE = (
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現"
    "返回值設置取數據資料檔案名字串錯誤類型參函列表結果戶輸入測試預建立刪除更新查詢請求載初始化配間長度節點執緒按鈕加修改檢處理儲存讀開關閉"
)
_JAPANESE = (
    "日一人年大十二本中長出三時行見月分後前生五間上東四今金九入学高円子外国来気小取得値設定数列文字更新削除追加変更処理名表示画面戻返初期化開始終了"
    "力実確認用場合配型引関作成対象情報読書込保存検索"
)
_KOREAN = (
    "이다에의는로하을가고지서한은기으년대사시를리도인스일그것수있나어해자부정보제상과전주들장성구여데"
    "만비연소면신반환값설오류함문열록생삭추입력출결"
)
_CYRILLIC, _GREEK = "оеаинтсрвлкмдпугяызбйьчхжцюшэщфії", "ατοιενρσκηπςυμλίόάγέδήωχθύ"
_HEBREW, _ARABIC = "יוהלרבתמאשנעםדקחפסכגטצןזך", "اليمونرتبةعدسفهكقأحجشطصىخإ"
_THAI = "านรอกเงมยลวดทสตะปบคหแจพชขใัิี่้ึืุู์็ำไ"
_TYPOGRAPHIC = frozenset("‘’‚“”„–—…•«»‹›©®™°·§£€¡¿º±×÷¶¬²³¹½¼¾")
_WIDE_PUNCTUATION = frozenset("、。，：；！？（）「」『』【】《》〈〉・ー“”‘’—…")

_EASTERN = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ")
_LATIN: Mapping[str, Sequence[str]] = {
    "cp1252": ("äöüß", "àâæçéèêëîïôœùûü", "áéíñóúü", "áâãàçéêíóôõú", "àèéìòù", "åäöé", "æøåé", "áéíðóúýþæö", "äöõü"),
    "cp1250": _EASTERN,
    "iso8859_2": _EASTERN,
    "cp1254": ("çğıöşüâîû",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž"),
}
"""Non-ASCII letters of the languages written in each encoding."""
_SCRIPTS = {
    "cp1251": _CYRILLIC, "koi8_u": _CYRILLIC, "cp866": _CYRILLIC, "iso8859_5": _CYRILLIC, "cp1253": _GREEK,
    "iso8859_7": _GREEK, "cp1255": _HEBREW, "cp1256": _ARABIC, "cp874": _THAI,
}  # fmt: skip
_COMMON_CHARACTERS = {
    "gb18030": _SIMPLIFIED_CHINESE, "cp950": _TRADITIONAL_CHINESE, "cp932": _JAPANESE, "euc_jp": _JAPANESE,
    "cp949": _KOREAN,
}  # fmt: skip
_COMMON_LEAD_BYTES = {
    "gb18030": (0xB0, 0xD7), "cp950": (0xA4, 0xC6), "cp932": (0x88, 0x98), "euc_jp": (0xB0, 0xCF), "cp949": (0xB0, 0xC8)
}  # fmt: skip
"""The first and last lead byte of common characters, by encoding."""
_ASCII_PROBE = bytes(range(128)) + b".xn--mnchen-3ya"
_UNUSABLE_CODECS = ("iso2022", "hz", "unicode-escape", "raw-unicode-escape")
"""Codecs in which a byte's meaning depends on earlier ones, or which write a character as several ASCII characters."""
_BROKEN_BYTE_WEIGHT = -2.0
"""Weight of an undecodable byte; a common character has weight 1."""


def find_declared_encoding(raw: bytes) -> str:
    """Find the encoding that text declares at its beginning, in the notation of Python, Emacs, Vim, XML, CSS or HTML.
    Empty if it declares none that can be used."""
    match = _DECLARATION.search(raw[:MAX_DECLARED_BYTES])
    name = next(filter(None, match.groups()), b"") if match else b""
    return usable_codec(name.decode("ascii", "replace").removesuffix("-unix").removesuffix("-dos"))


def usable_codec(name: str) -> str:
    """Return the codec with that name if it is ASCII-compatible and stateless. Empty otherwise."""
    try:
        codec_info = codecs.lookup(name) if name else None
        if codec_info is None or not codec_info._is_text_encoding:  # rejects transformations such as base64
            return ""
        if codec_info.name.startswith(_UNUSABLE_CODECS):
            return ""
        is_ascii_compatible = _ASCII_PROBE.decode(codec_info.name) == _ASCII_PROBE.decode("ascii")
    except (LookupError, ValueError):
        return ""
    codec = codec_info.name.replace("-", "_").replace("utf_8", "utf-8")
    return _SUPERSET_CODECS.get(codec, codec) if is_ascii_compatible else ""


def guess_encoding(raw: bytes) -> str:
    """Guess the encoding of text that is not UTF-8."""
    sample = b"\n".join(_NON_ASCII_LINE.findall(raw))[:MAX_SAMPLE_BYTES]
    scores = {
        codec: compute_score(sample.decode(codec, "surrogateescape"), codec)
        for codec, compute_score in _SCORERS.items()
    }
    best = max(scores, key=lambda codec: scores[codec])
    return best if scores[best] > 0 else "latin-1"


def _multibyte_score(text: str, codec: str) -> float:
    first, last = _COMMON_LEAD_BYTES[codec]
    common_characters = frozenset(_COMMON_CHARACTERS[codec])
    is_japanese = common_characters >= frozenset(_JAPANESE)
    weights: dict[str, float] = {}
    for character in set(text):
        code = character.encode(codec, "surrogateescape")
        if "\udc80" <= character <= "\udcff":
            weights[character] = _BROKEN_BYTE_WEIGHT
        elif len(code) == 2 and first <= code[0] <= last:
            weights[character] = 0.9 if character in common_characters else 0.5
        elif "\u3041" <= character <= "\u30fc":
            weights[character] = 0.9 if is_japanese else -0.5
        else:
            weights[character] = 0.6 if character in _WIDE_PUNCTUATION else 0.05 if len(code) == 2 else -0.3
    non_ascii = [character for character in text if character > "\x7f"]
    return sum(weights[character] for character in non_ascii) / len(non_ascii)


def _script_score(text: str, codec: str) -> float:
    """Score text in a non-Latin script. In good text, a word uses a single script, and has capitals only at its
    beginning."""
    weights = {letter: 0.95 - 0.02 * rank for rank, letter in enumerate(_SCRIPTS[codec])}
    total, count = 0.0, 0
    for word in _WORD.findall(text):
        if non_ascii := [letter for letter in word if letter > "\x7f"]:
            is_implausible = (
                word.isascii() or len(non_ascii) < len(word) or (word[1:].lower() != word[1:] and not word.isupper())
            )
            count += len(non_ascii)
            is_capitalised = word.isupper() or len(word) == 1
            total += sum(
                -0.3 if is_implausible else weights.get(letter.lower(), 0.1) - 0.3 * is_capitalised
                for letter in non_ascii
            )
    return _score_with_symbols(text, total, count)


def _latin_score(text: str, codec: str) -> float:
    """Score text in the Latin script. In good text, accented letters stand among ASCII letters."""
    total, count, letters = 0.0, 0, list[str]()
    for word in _WORD.findall(text):
        if non_ascii := [letter for letter in word if letter > "\x7f"]:
            is_implausible = (word[1:].lower() != word[1:] and not word.isupper()) or (
                len(non_ascii) > 2 and 2 * len(non_ascii) > len(word)
            )
            count += len(non_ascii)
            letters += [letter.lower() for letter in non_ascii]
            is_isolated = len(non_ascii) == len(word) and (len(word) > 1 or codec != "cp1252")
            total += len(non_ascii) * (-0.3 if is_implausible else 0.2 if is_isolated else 0.5)
    most_common = max(sum(letter in alphabet for letter in letters) for alphabet in _LATIN[codec])
    return _score_with_symbols(text, total + 0.4 * most_common, count)


def _score_with_symbols(text: str, total: float, count: int) -> float:
    for character in text:
        if character > "\x7f" and not character.isalpha():
            is_broken = "\udc80" <= character <= "\udcff" or character < "\xa0"
            count += 1
            total += _BROKEN_BYTE_WEIGHT if is_broken else 0.5 if character in _TYPOGRAPHIC else -0.2
    return total / max(count, 1)


_SCORERS: Mapping[str, Callable[[str, str], float]] = {
    **dict.fromkeys(_LATIN, _latin_score),
    **dict.fromkeys(MULTIBYTE_CODECS, _multibyte_score),
    **dict.fromkeys(_SCRIPTS, _script_score),
}
"""Scoring functions by encoding. On equal scores, the encoding that comes first is chosen."""
