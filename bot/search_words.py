"""From a question to the words that are worth looking for. Pure.

Takes a sentence of a person in any language and gives a query for the searches: everyday words
of a few languages go, names, numbers and quotes stay. Knows nothing of indexes; what a term is
there, `memory/terms.py` says.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

from memory.terms import fold

QUESTION_CHARS = 2_000
WORDS = 16
WORD_CHARS = 64
_RUN = 4
"""A Chinese or Japanese run from this length on is looked for by its pairs of characters."""

_QUOTED = regex.compile(r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」')
_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}'’_.@#/+-]*")
_EDGES = "'’_.@#/+-"
_ELIDED = regex.compile(r"(?:[ldjmtsnc]|qu|dell|all|nell|sull|un)['’](?=\p{L})", regex.IGNORECASE)
_POSSESSIVE = regex.compile(r"['’]s$", regex.IGNORECASE)
_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_CJK_RUN = regex.compile(
    r"[\p{Han}々]+|[\p{Katakana}ー]+|[\p{L}\p{N}--[\p{Han}\p{Hiragana}\p{Katakana}]]+", regex.V1
)
_CJK_STOP = regex.compile(
    r"什么时候|为什么|怎么样|怎么办|什么|怎么|哪里|哪个|哪些|多少|我们|你们|他们|她们|我的|你的"
    r"|有没有|没有|告诉|记得|关于|上次|的|了|吗|呢|吧|是|我|你|您|他|她|它|谁|哪|请|在"
    r"|何時|何処|何故|何|誰|私|僕|君"
)
_HIRAGANA = regex.compile(
    r"(?:でした|ました|ですか|ますか|です|ます|いつ|どこ|だれ|なに|なぜ|どう|から|まで|という"
    r"|は|が|を|に|の|で|と|も|か|へ|ね|よ)+$"
)
_HANGUL = regex.compile(r"\p{Hangul}+")
_PARTICLE = regex.compile(
    r"(?<=\p{Hangul}{2})(?:에서는|에서|에게|한테|까지|부터|으로|이랑|하고|처럼|보다|은|는|이|가"
    r"|을|를|에|의|도|로|와|과|만|랑)$"
)
_ALSO_NAMES = frozenset({"will", "can"})
"""Everyday words that, with a capital within a sentence, are names."""
_EVERYDAY = {
    "English": (
        "a about after again all also am an and any are as at be been before but by can could "
        "did do does done don't doesn't didn't for from had has have he her hers him his how "
        "i i'm i've if in into is isn't it it's its just know let like me mentioned mine my "
        "no not now of on or our ours out please remember said say says she should so some "
        "something tell than that that's the their them then there these they thing this "
        "those to told up us want was we were what what's when where where's which who who's "
        "whom whose why will with would yes you your yours"
    ),
    "German": (
        "aber als am an auch auf aus bei beim bin bis bist bitte da dann das dass dein deine "
        "dem den denn der des die dies diese dieser dieses dir doch du durch ein eine einem "
        "einen einer eines er erinnerst es etwas euch euer für gab gesagt gibt hab habe haben "
        "hat hatte hatten heißt ich ihm ihn ihr ihre im in ins ist ja kann kannst kein keine "
        "können man mein meine meinem meinen meiner mich mir mit nach nein nicht noch nun ob "
        "oder sag sagen sagte schon sein seine sich sie sind so soll über um und uns unser "
        "unsere vom von vor war waren warum was weiß weißt welche welchem welchen welcher "
        "welches wem wen wenn wer werden wessen wie wieder wir wird wo woher wohin wollen "
        "wollte worum wurde zu zum zur wann"
    ),
    "Italian": (
        "a abbiamo ad ai al alla alle anche avevo che chi ci come con cosa cui da dai dal "
        "dalla degli dei del della delle detto di dimmi dove e è ed era ero gli ha hai hanno "
        "ho i il in io l'ho la le lei lo loro lui ma me mi mia mie miei mio ne nei nel nella "
        "noi non nostra nostro o ogni per perché più poi qual qual'è quale quali quando "
        "quanti quanto quel quella quelle quello questa queste questi questo ricordi se sei "
        "si sia sono su sua sui sul sulla suo te ti tra tu tua tuo un una uno vi voi"
    ),
    "French": (
        "ai as à a au aux avais avait avec avez avons ce cela ces cet cette ceux comment dans "
        "de des dis dit donc dont du elle elles en es est et étaient était être eu fait il "
        "ils j'ai je la le les leur leurs lui ma mais me mes moi mon même n'est ne nos notre "
        "nous on ont ou où par parlé pas plus pour pourquoi qu'est-ce qu'il qu quand que quel "
        "quelle quelles quels qui quoi rappelle sa sais sans se ses si son sont souviens sur "
        "ta te tes toi ton tu un une vos votre vous y est-ce"
    ),
    "Spanish and Portuguese": (
        "al algo aquí como cómo con cual cuál cuáles cuando cuándo cuanto cuánto de del desde "
        "dice dije dijo donde dónde el él ella ellas ellos en entre era eres es esa ese eso "
        "esta está están estas este esto estos ha había hace han hay he la las le les lo los "
        "más me mi mis mucho muy no nos nosotros nuestra nuestro o os para pero por porque "
        "porqué qué que quien quién recuerdas se ser si sí sin sobre son soy su sus también "
        "te tengo tiene tu tú tus un una uno unos y ya yo ao aos as com da das do dos e eu "
        "isso isto já lhe mas meu minha na nas nem não ou pela pelo quando quem qual são sem "
        "seu sua também tem uma você"
    ),
    "Dutch": (
        "aan al bij dat de die dit een en er had heb hebben heeft het hij hoe ik in is je jij "
        "kan maar me met mij mijn naar niet nog of om onze ook op over te toen uit van voor "
        "waar was wat we wel welke wie wij zei zij zijn"
    ),
    "Russian and Ukrainian": (
        "а без бы был была были было быть в вам вас во вот все вы где да для до его ее если "
        "есть еще же за и из или их к как какая какие какой ко когда кого кто ли мне мной мог "
        "мои мой моя мы на над нам нас не него нее нет ни но ну о об он она они от по почему "
        "при про с сказал сказала со так там тебе тебя то тот ты у уже что чтобы чем это эта "
        "этот я де коли мій чи що як які який є і й та"
    ),
    "Korean": (
        "언제 어디 누구 누가 뭐 무엇 무슨 왜 어떻게 얼마 우리 나는 내가 제가 저는 내 "
        "제 나 저 그 이 것 뭐야 뭐예요 인가요 있나요 어디야 어디에 언제야 언제예요 "
        "했지 말했지"
    ),
}
_STOP = frozenset(fold(word) for text in _EVERYDAY.values() for word in text.split())


def keywords(question: str) -> str:
    """The query for a question: words apart by spaces, quotes in double quotes.

    '' when there is nothing but everyday words, so nothing to look for.
    """
    text = question[:QUESTION_CHARS]
    quoted = ["".join(groups).replace('"', " ").split() for groups in _QUOTED.findall(text)]
    found = ['"' + " ".join(quote) + '"' for quote in quoted if quote]
    text = _QUOTED.sub(" . ", text)
    begins = True
    end = 0
    for match in _WORD.finditer(text):
        begins = begins or any(mark in text[end : match.start()] for mark in ".!?:\n¿¡。？！")
        found += _of_word(match[0], begins)
        begins, end = match[0].endswith((".", "!")), match.end()
    different: dict[str, str] = {}
    for word in found:
        different.setdefault(fold(word), word)
    return " ".join(list(different.values())[:WORDS])


def _of_word(word: str, begins: bool) -> Iterator[str]:
    """What of one written word is looked for; `begins` says that a sentence begins with it."""
    word = word.strip(_EDGES)
    if _CJK.search(word):
        yield from _of_run(word)
        return
    if not word or fold(word) in _STOP:
        named = word.istitle() and not begins and fold(word) in _ALSO_NAMES
        if named:
            yield word
        return
    word = _POSSESSIVE.sub("", _ELIDED.sub("", word))
    if _HANGUL.fullmatch(word):
        word = _PARTICLE.sub("", word)
    letter = len(word) == 1 and word.isascii() and not word.isdigit()
    if fold(word) not in _STOP and not letter:
        yield word[:WORD_CHARS]


def _of_run(word: str) -> Iterator[str]:
    """Words of a run of Chinese or Japanese, which has no spaces between them."""
    found: list[str] = []
    for part in _CJK_STOP.split(word):
        found += _CJK_RUN.findall(part)
    if not found and (rest := _HIRAGANA.sub("", word)) and not _CJK_STOP.fullmatch(rest):
        found = [rest]
    longer = [run for run in found if len(run) > 1] or found
    for run in longer:
        if len(run) >= _RUN and regex.fullmatch(r"\p{Han}+", run):
            yield from (run[at : at + 2] for at in range(min(len(run) - 1, 8)))
        else:
            yield run[:WORD_CHARS]
