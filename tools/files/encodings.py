"""Detects legacy encodings: a declared one, or else a guess from the bytes. Pure.

A guess is used for display and never for writing: see `ebbtide.tools.files.text`.
"""

import codecs
from collections.abc import Callable, Mapping, Sequence

from ebbtide.tools.lazy import regex

MULTIBYTE = ("gb18030", "cp950", "cp932", "euc_jp", "cp949")
"""Encodings in which an ASCII byte may be the second half of a character."""
MAX_SAMPLE_BYTES = 4_096
"""Maximum number of bytes sampled for a guess, from lines with non-ASCII bytes."""
MAX_DECLARED_BYTES = 2_048
"""Number of bytes at the beginning of a file in which it may declare its encoding."""

_TELLING = regex(rb"[^\r\n]*[\x80-\xff][^\r\n]*")
_WORD = regex(r"[^\W\d_]+")
_DECLARATION = regex(
    rb"""\A(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)"""
    rb"""|\A(?:[^\n]*\n)?[^\n]*-\*-[^\n]*?\bcoding:[ \t]*([-\w.]+)[^\n]*-\*-"""
    rb"""|\bvim?:[^\n]*\b(?:fileencoding|fenc)=([-\w.]+)"""
    rb"""|\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([-\w.:]+)"""
    rb"""|\A@charset\s+"([-\w.:]+)"|(?i:<meta[^>]{0,300}?charset\s*=\s*["']?([-\w.:]+))"""
)
_WIDER = {"gb2312": "gbk", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "cp950"}
"""Supersets that editors write under the name of the narrower encoding."""

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
_WIDE = frozenset("、。，：；！？（）「」『』【】《》〈〉・ー“”‘’—…")

_EASTERN = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ")
_LATIN: Mapping[str, Sequence[str]] = {
    "cp1252": ("äöüß", "àâæçéèêëîïôœùûü", "áéíñóúü", "áâãàçéêíóôõú", "àèéìòù", "åäöé", "æøåé", "áéíðóúýþæö", "äöõü"),
    "cp1250": _EASTERN,
    "iso8859_2": _EASTERN,
    "cp1254": ("çğıöşüâîû",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž"),
}
"""Non-ASCII letters of the languages written in these encodings."""
_SCRIPTS = {
    "cp1251": _CYRILLIC, "koi8_u": _CYRILLIC, "cp866": _CYRILLIC, "iso8859_5": _CYRILLIC, "cp1253": _GREEK,
    "iso8859_7": _GREEK, "cp1255": _HEBREW, "cp1256": _ARABIC, "cp874": _THAI,
}  # fmt: skip
_USUAL = {
    "gb18030": _SIMPLIFIED_CHINESE, "cp950": _TRADITIONAL_CHINESE, "cp932": _JAPANESE, "euc_jp": _JAPANESE,
    "cp949": _KOREAN,
}  # fmt: skip
_FIRST_LEVEL = {
    "gb18030": (0xB0, 0xD7), "cp950": (0xA4, 0xC6), "cp932": (0x88, 0x98), "euc_jp": (0xB0, 0xCF), "cp949": (0xB0, 0xC8)
}  # fmt: skip
"""Lead bytes of the characters in daily use."""
_PROBE = bytes(range(128)) + b".xn--mnchen-3ya"
_NOT_FOR_FILES = ("iso2022", "hz", "unicode-escape", "raw-unicode-escape")
"""Codecs in which characters depend on others, or are written as several ASCII characters."""
_BROKEN_BYTE_WEIGHT = -2.0
"""Weight of an undecodable byte. A common character weighs 1."""


def declared_encoding(raw: bytes) -> str:
    """Return the encoding that a text declares at its beginning, in the notation of Python, Emacs, Vim, XML, CSS or
    HTML. Empty if none can be used."""
    found = _DECLARATION.search(raw[:MAX_DECLARED_BYTES])
    named = next(filter(None, found.groups()), b"") if found else b""
    return usable(named.decode("ascii", "replace").removesuffix("-unix").removesuffix("-dos"))


def usable(name: str) -> str:
    """Return the codec of that name if it is ASCII-compatible and stateless, or an empty string."""
    try:
        found = codecs.lookup(name) if name else None
        if found is None or not found._is_text_encoding:  # excludes transformations such as base64
            return ""
        if found.name.startswith(_NOT_FOR_FILES):
            return ""
        is_plain = _PROBE.decode(found.name) == _PROBE.decode("ascii")
    except (LookupError, ValueError):
        return ""
    codec = found.name.replace("-", "_").replace("utf_8", "utf-8")
    return _WIDER.get(codec, codec) if is_plain else ""


def guessed_encoding(raw: bytes) -> str:
    """Return the most likely encoding of a text that is not UTF-8."""
    sample = b"\n".join(_TELLING.findall(raw))[:MAX_SAMPLE_BYTES]
    scores = {codec: weigh(sample.decode(codec, "surrogateescape"), codec) for codec, weigh in _CANDIDATES.items()}
    best = max(scores, key=lambda codec: scores[codec])
    return best if scores[best] > 0 else "latin-1"


def _of_two_bytes(text: str, codec: str) -> float:
    first, last = _FIRST_LEVEL[codec]
    usual = frozenset(_USUAL[codec])
    is_japanese = usual >= frozenset(_JAPANESE)
    weights: dict[str, float] = {}
    for character in set(text):
        code = character.encode(codec, "surrogateescape")
        if "\udc80" <= character <= "\udcff":
            weights[character] = _BROKEN_BYTE_WEIGHT
        elif len(code) == 2 and first <= code[0] <= last:
            weights[character] = 0.9 if character in usual else 0.5
        elif "\u3041" <= character <= "\u30fc":
            weights[character] = 0.9 if is_japanese else -0.5
        else:
            weights[character] = 0.6 if character in _WIDE else 0.05 if len(code) == 2 else -0.3
    high = [character for character in text if character > "\x7f"]
    return sum(weights[character] for character in high) / len(high)


def _of_script(text: str, codec: str) -> float:
    """Score a text in a non-Latin script: words use a single script, and capitals only begin them."""
    weights = {letter: 0.95 - 0.02 * rank for rank, letter in enumerate(_SCRIPTS[codec])}
    total, count = 0.0, 0
    for word in _WORD.findall(text):
        if high := [letter for letter in word if letter > "\x7f"]:
            is_odd = word.isascii() or len(high) < len(word) or (word[1:].lower() != word[1:] and not word.isupper())
            count += len(high)
            is_loud = word.isupper() or len(word) == 1
            total += sum(-0.3 if is_odd else weights.get(letter.lower(), 0.1) - 0.3 * is_loud for letter in high)
    return _with_signs(text, total, count)


def _of_latin(text: str, codec: str) -> float:
    """Score a text in a Latin script: accented letters occur among ASCII letters."""
    total, count, letters = 0.0, 0, list[str]()
    for word in _WORD.findall(text):
        if high := [letter for letter in word if letter > "\x7f"]:
            is_odd = (word[1:].lower() != word[1:] and not word.isupper()) or (
                len(high) > 2 and 2 * len(high) > len(word)
            )
            count += len(high)
            letters += [letter.lower() for letter in high]
            is_apart = len(high) == len(word) and (len(word) > 1 or codec != "cp1252")
            total += len(high) * (-0.3 if is_odd else 0.2 if is_apart else 0.5)
    most = max(sum(letter in alphabet for letter in letters) for alphabet in _LATIN[codec])
    return _with_signs(text, total + 0.4 * most, count)


def _with_signs(text: str, total: float, count: int) -> float:
    for character in text:
        if character > "\x7f" and not character.isalpha():
            is_broken = "\udc80" <= character <= "\udcff" or character < "\xa0"
            count += 1
            total += _BROKEN_BYTE_WEIGHT if is_broken else 0.5 if character in _TYPOGRAPHIC else -0.2
    return total / max(count, 1)


_CANDIDATES: Mapping[str, Callable[[str, str], float]] = {
    **dict.fromkeys(_LATIN, _of_latin),
    **dict.fromkeys(MULTIBYTE, _of_two_bytes),
    **dict.fromkeys(_SCRIPTS, _of_script),
}
"""Most likely first, which decides between equal scores."""
