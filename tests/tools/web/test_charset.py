"""What a page says, whatever its bytes are and whatever is said of them."""

import pytest

from ebbtide.tools.web.charset import decode_page

GERMAN = "Die Größe der Bäume überrascht viele Gäste – am Fluß."
FRENCH = "L’élève a déjà été à l’école. Où est passé le garçon ?"
WRITTEN = {
    "cp1252": (GERMAN, FRENCH, "It’s a “simple” test — nothing more…", "20 °C, 5 €, 3×4 ½", "È così perché più"),
    "latin-1": ("Jag går på gatan där träden växer.", "A programação não é fácil: informações, avó."),
    "cp1250": (
        "Sprzedaż używanych samochodów, części, wrocław",
        "Zażółć gęślą jaźń, święta są w grudniu.",
        "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    ),
    "iso8859-2": ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "Bună ziua! Ţară, şi este o pagină simplă."),
    "cp1254": ("Çocuklar şarkı söylüyor ve güneş doğuyor. Iğdır çok güzel.",),
    "cp1257": ("Ąžuolas žaliuoja, o šiandien gražus oras. Ačiū, kad esate čia.",),
    "cp1251": ("Привет, мир! Это простая страница на русском языке.",),
    "koi8-r": ("Привет, мир! Это простая страница на русском языке.",),
    "cp1253": ("Καλημέρα κόσμε! Αυτή είναι μια απλή σελίδα στα ελληνικά.",),
    "cp1255": ("שלום עולם! זהו דף פשוט בעברית, והוא כתוב בקידוד ישן.",),
    "cp1256": ("مرحبا بالعالم! هذه صفحة بسيطة باللغة العربية.",),
    "cp932": ("こんにちは世界。これは日本語で書かれた簡単なページです。",),
    "euc-jp": ("こんにちは世界。これは日本語で書かれた簡単なページです。",),
    "iso2022_jp": ("こんにちは世界。これは日本語で書かれた簡単なページです。",),
    "gb18030": ("你好，世界。这是一个用中文写的简单网页，使用旧的字符编码。",),
    "big5": ("你好，世界。這是一個用中文寫的簡單網頁，使用舊的字元編碼。",),
    "cp874": ("สวัสดีชาวโลก นี่คือหน้าเว็บง่ายๆ ที่เขียนด้วยภาษาไทย",),
    "cp949": ("안녕하세요 세계. 이것은 한국어로 작성된 간단한 페이지입니다.",),
    "utf-8": (GERMAN, FRENCH, "ascii only"),
    "utf-16-le": (GERMAN, "ascii only"),
    "utf-16-be": (GERMAN,),
    "utf-32-le": (GERMAN,),
    "utf-32-be": (GERMAN, "日本語"),
}
PAGES = [(codec, text) for codec, texts in WRITTEN.items() for text in texts]


@pytest.mark.parametrize(("codec", "text"), PAGES)
def test_a_page_that_says_nothing_is_read_as_it_is_written(codec: str, text: str) -> None:
    page = f"<html><title>t</title><p class='x'>{text}</p>\n<p>and words of ASCII"
    for written in (text, page, "\ufeff" + page if codec.startswith("utf") else page):
        for declared in ("", "utf-8", "klingon", "base64"):
            assert decode_page(written.encode(codec), declared) == written.removeprefix("\ufeff")


def test_what_a_page_or_its_server_says_is_believed_where_it_can_be_true() -> None:
    late = "<!--" + "x" * 20_000 + "-->"
    russian = f"{late}<meta http-equiv='Content-Type' content='text/html; charset=windows-1251'>Да"
    xml = '<?xml version="1.0" encoding="ISO-8859-2"?><p>±</p>'
    typed = "€ – “x”"
    assert [
        decode_page(russian.encode("cp1251")),
        decode_page(russian.encode("cp1251"), "utf-8"),
        decode_page("Да".encode("koi8-r"), "koi8-r"),
        decode_page(xml.encode("latin-1")),
        decode_page(typed.encode("cp1252"), "iso-8859-1"),
        decode_page(GERMAN.encode(), "iso-8859-1"),
        decode_page(GERMAN.encode(), "utf-16"),
        decode_page(GERMAN.encode("utf-16-le"), "iso-8859-1"),
        decode_page(b"<meta charset=utf-16><p>gr\xc3\xbcn"),
    ] == [russian, russian, "Да", xml.replace("±", "ą"), typed, GERMAN, GERMAN, GERMAN, "<meta charset=utf-16><p>grün"]


def test_a_page_that_is_cut_or_damaged_keeps_the_rest_of_its_signs() -> None:
    text = "你好，世界。" * 40
    assert decode_page(text.encode()[:-1], is_truncated=True) == text[:-1]
    assert decode_page(text.encode("gb18030")[:-1], "gb2312", is_truncated=True) == text[:-1]
    assert decode_page(GERMAN.encode() + b" \xff", "utf-8") == GERMAN + " \ufffd"


@pytest.mark.parametrize("raw", [bytes(range(64)), b"\0" * 99, b"\1\0\2\0\3\0" * 99, b"ab\0cd"])
def test_what_is_no_text_is_not_made_one(raw: bytes) -> None:
    assert [decode_page(raw, declared) for declared in ("", "utf-8", "klingon")] == [None] * 3
