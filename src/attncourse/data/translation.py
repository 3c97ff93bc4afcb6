"""English and French sentences written by a synchronous grammar, with gold word alignments.

Each rule builds both languages at once: the same parts, in two orders. So every word of the target is linked
to the words it comes from, and a sentence can be made as long as an experiment needs. The French is correct
French, and its order differs from the English where French differs: adjectives after the noun, possessives
reversed, object pronouns before the verb, negation around it. Two rules move words far: the English passive
becomes a French active, and a time that ends an English clause opens the French one.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from attncourse.data.corpora import check_counts
from attncourse.data.pairs import Alignment, Corpus, Pair
from attncourse.data.vocabulary import Vocabulary

# English singular, English plural, French singular, French plural, gender
NOUNS = [
    line.split()
    for line in """
    king kings roi rois m|queen queens reine reines f|child children enfant enfants m
    woman women femme femmes f|man men homme hommes m|girl girls fille filles f|boy boys garçon garçons m
    doctor doctors médecin médecins m|teacher teachers professeur professeurs m
    worker workers ouvrier ouvriers m|farmer farmers paysan paysans m|singer singers chanteuse chanteuses f
    actress actresses actrice actrices f|neighbour neighbours voisin voisins m
    soldier soldiers soldat soldats m|student students étudiante étudiantes f|cat cats chat chats m
    dog dogs chien chiens m|horse horses cheval chevaux m|bird birds oiseau oiseaux m|cow cows vache vaches f
    mouse mice souris souris f|fox foxes renard renards m|bee bees abeille abeilles f
    house houses maison maisons f|garden gardens jardin jardins m|tree trees arbre arbres m
    table tables table tables f|chair chairs chaise chaises f|book books livre livres m
    letter letters lettre lettres f|flower flowers fleur fleurs f|apple apples pomme pommes f
    bridge bridges pont ponts m|road roads route routes f|town towns ville villes f
    car cars voiture voitures f|boat boats bateau bateaux m|church churches église églises f
    door doors porte portes f|window windows fenêtre fenêtres f|school schools école écoles f
    hat hats chapeau chapeaux m|song songs chanson chansons f
    """.strip().replace("\n", "|").split("|")
]

# English; French masculine and feminine singular, masculine and feminine plural; before or after the noun
ADJECTIVES = [
    line.split()
    for line in """
    red rouge rouge rouges rouges after|blue bleu bleue bleus bleues after|green vert verte verts vertes after
    white blanc blanche blancs blanches after|black noir noire noirs noires after
    quiet calme calme calmes calmes after|sad triste triste tristes tristes after
    rich riche riche riches riches after|poor pauvre pauvre pauvres pauvres after
    strange étrange étrange étranges étranges after|strong fort forte forts fortes after
    famous célèbre célèbre célèbres célèbres after|tired fatigué fatiguée fatigués fatiguées after
    lost perdu perdue perdus perdues after|small petit petite petits petites before
    big grand grande grands grandes before|young jeune jeune jeunes jeunes before
    bad mauvais mauvaise mauvais mauvaises before
    """.strip().replace("\n", "|").split("|")
]

# English third person, plain form, past participle; French third person singular and plural
TRANSITIVE = [
    line.split()
    for line in """
    sees see seen voit voient|loves love loved aime aiment|finds find found trouve trouvent
    watches watch watched regarde regardent|follows follow followed suit suivent
    hears hear heard entend entendent|draws draw drawn dessine dessinent|buys buy bought achète achètent
    sells sell sold vend vendent|hides hide hidden cache cachent|carries carry carried porte portent
    forgets forget forgotten oublie oublient|wants want wanted veut veulent
    knows know known connaît connaissent|protects protect protected protège protègent
    """.strip().replace("\n", "|").split("|")
]

# English third person, plain form; French third person singular and plural
INTRANSITIVE = [
    line.split()
    for line in """
    sleeps sleep dort dorment|sings sing chante chantent|laughs laugh rit rient|runs run court courent
    waits wait attend attendent|works work travaille travaillent|dreams dream rêve rêvent
    """.strip().replace("\n", "|").split("|")
]

TIMES = [
    ("today", "aujourd'hui"), ("tonight", "ce soir"), ("every morning", "chaque matin"),
    ("now", "maintenant"), ("on monday", "lundi"), ("in winter", "en hiver"), ("in summer", "en été"),
    ("very often", "très souvent"),
]
DETERMINERS = {  # French masculine, feminine, plural
    "the": ("le", "la", "les"), "this": ("ce", "cette", "ces"), "my": ("mon", "ma", "mes"),
    "a": ("un", "une", "des"),
}
DETERMINER_WEIGHTS = [6, 2, 2, 3]
PLACES = [
    ("near", "près de"), ("behind", "derrière"), ("under", "sous"), ("with", "avec"),
    ("in front of", "devant"),
]
CONJUNCTIONS = [("and", "et"), ("but", "mais"), ("because", "parce que"), ("while", "pendant que")]
OPINIONS = [("says", "say", "dit", "disent"), ("thinks", "think", "pense", "pensent")]

VOWELS = tuple("aeiouyâéèêîôhœ")  # every h in this lexicon is mute
ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'"}
BEFORE_VOWEL = ELIDED | {"ma": "mon", "ce": "cet"}
MERGED = {("de", "le"): "du", ("de", "les"): "des", ("de", "des"): "de", ("de", "de"): "de"}


@dataclass(eq=False, slots=True)
class Word:
    """A word of either language; a French one names the English words it stands for, surely or possibly."""

    text: str
    sure: tuple["Word", ...] = ()
    possible: tuple["Word", ...] = ()


@dataclass(eq=False, slots=True)
class Phrase:
    """The same piece of both languages."""

    english: list[Word]
    french: list[Word]


@dataclass(eq=False, slots=True)
class NounPhrase(Phrase):
    """A phrase that verbs and adjectives agree with."""

    plural: bool = False
    feminine: bool = False


def word(english: str, french: str) -> Phrase:
    """A word or a fixed expression. Of equal length: each word has its sure twin; else all are possible."""
    source, target = [Word(text) for text in english.split()], french.split()
    if len(source) == len(target):
        return Phrase(source, [Word(text, sure=(twin,)) for text, twin in zip(target, source, strict=True)])
    return Phrase(source, [Word(text, possible=tuple(source)) for text in target])


def rule(english: Sequence[Phrase], french: Sequence[Phrase]) -> Phrase:
    """The same parts in an English and in a French order; a part may have words in one language only."""
    return Phrase(
        [word for part in english for word in part.english], [word for part in french for word in part.french]
    )


class Grammar:
    """Draws sentences. `budget` is the number of English words that a phrase should come close to."""

    def __init__(self, seed: int | str):
        self.random = random.Random(seed)

    def sentence(self, budget: int) -> Phrase:
        """Clauses joined by conjunctions until the budget is spent."""
        pick = self.random
        first = budget if budget <= 9 else pick.randint(5, min(budget, 17))
        whole = self.clause(first)
        while budget - len(whole.english) >= 4:
            joint = word(*pick.choice(CONJUNCTIONS))
            rest = budget - len(whole.english) - 1
            clause = self.clause(rest if rest <= 9 else pick.randint(4, min(rest, 17)))
            whole = rule([whole, joint, clause], [whole, joint, clause])
        return whole

    def clause(self, budget: int, *, timed: bool = True) -> Phrase:
        """One clause, its time at the end in English and in front in French."""
        pick = self.random
        time = word(*pick.choice(TIMES)) if timed and budget >= 5 and pick.random() < 0.5 else None
        if time:
            budget -= len(time.english)
        if budget >= 8 and pick.random() < 0.25:
            core = self.opinion(budget)
        elif budget >= 7 and pick.random() < 0.45:
            core = self.passive(budget)
        elif budget >= 5 and pick.random() < 0.8:
            core = self.transitive(budget)
        else:
            core = pick.choice([self.intransitive, self.quality, self.clitic])(budget)
        return rule([core, time], [time, core]) if time else core

    def opinion(self, budget: int) -> Phrase:
        """the king thinks that ... -> le roi pense que ..."""
        subject = self.noun_phrase(3)
        singular, plain, french_singular, french_plural = self.random.choice(OPINIONS)
        verb = word(*((plain, french_plural) if subject.plural else (singular, french_singular)))
        that = word("that", "que")
        # Without a time of its own: at the end of the sentence nobody could tell whose time it is.
        rest = self.clause(budget - len(subject.english) - 2, timed=False)
        return rule([subject, verb, that, rest], [subject, verb, that, rest])

    def transitive(self, budget: int) -> Phrase:
        """the girl sees the cat -> la fille voit le chat; sometimes negated."""
        left = self.random.randint(2, max(2, budget - 4))
        subject, thing = self.noun_phrase(left), self.noun_phrase(max(2, budget - left - 1))
        return self.predicate(subject, self.random.choice(TRANSITIVE), [thing], [thing])

    def intransitive(self, budget: int) -> Phrase:
        """the girl sleeps -> la fille dort."""
        third, plain, *french = self.random.choice(INTRANSITIVE)
        return self.predicate(self.noun_phrase(budget - 1), [third, plain, "", *french], [], [])

    def quality(self, budget: int) -> Phrase:
        """the houses are red -> les maisons sont rouges: the adjective agrees."""
        subject = self.noun_phrase(max(2, budget - 2))
        be = word(*(("are", "sont") if subject.plural else ("is", "est")))
        adjective = self.adjective(subject)[0]
        return rule([subject, be, adjective], [subject, be, adjective])

    def clitic(self, budget: int) -> Phrase:
        """the girl sees him -> la fille le voit: the pronoun moves before the verb."""
        pronoun = word(*self.random.choice([("him", "le"), ("her", "la"), ("them", "les")]))
        subject = self.noun_phrase(budget - 2)
        return self.predicate(subject, self.random.choice(TRANSITIVE), [pronoun], [], [pronoun])

    def predicate(
        self,
        subject: NounPhrase,
        forms: Sequence[str],
        english_object: Sequence[Phrase],
        french_object: Sequence[Phrase],
        clitic: Sequence[Phrase] = (),
    ) -> Phrase:
        """Subject and verb, with the negation around the French verb."""
        third, plain, _, french_singular, french_plural = forms
        french = french_plural if subject.plural else french_singular
        if self.random.random() >= 0.2:
            verb = word(plain if subject.plural else third, french)
            return rule([subject, verb, *english_object], [subject, *clitic, verb, *french_object])
        verb, negation = word(plain, french), word("not", "pas")
        if french_object and french_object[0].french[0].text in ("un", "une", "des"):
            french_object[0].french[0].text = "de"  # il ne voit pas de chat
        auxiliary = Phrase([Word("do" if subject.plural else "does")], [])
        # "not" is "ne ... pas", and so may be the auxiliary; the verb may stand for "pas".
        particle = Phrase([], [Word("ne", possible=(*negation.english, *auxiliary.english))])
        negation.french[0].possible = (*verb.english, *auxiliary.english)
        return rule(
            [subject, auxiliary, negation, verb, *english_object],
            [subject, particle, *clitic, verb, negation, *french_object],
        )

    def passive(self, budget: int) -> Phrase:
        """the house is seen by the girl -> la fille voit la maison: subject and agent change places."""
        left = self.random.randint(2, budget - 5)
        patient, agent = self.noun_phrase(left), self.noun_phrase(max(2, budget - left - 3))
        _, _, participle, french_singular, french_plural = self.random.choice(TRANSITIVE)
        verb = word(participle, french_plural if agent.plural else french_singular)
        auxiliary, by = Phrase([Word("are" if patient.plural else "is")], []), Phrase([Word("by")], [])
        verb.french[0].possible = (*auxiliary.english, *by.english)
        return rule([patient, auxiliary, verb, by, agent], [agent, verb, patient])

    def noun_phrase(self, budget: int) -> NounPhrase:
        """Determiner, adjectives and noun; with words to spare, a possessor, a place or a relative clause."""
        pick = self.random
        if budget >= 6 and pick.random() < 0.35:
            return self.relative(budget)
        if budget >= 5 and pick.random() < 0.5:
            return self.possessive(budget) if pick.random() < 0.6 else self.placed(budget)
        return self.simple(budget)

    def simple(self, budget: int) -> NounPhrase:
        """the small red house -> la petite maison rouge."""
        pick = self.random
        singular, plural, french_singular, french_plural, gender = pick.choice(NOUNS)
        phrase = NounPhrase([], [], plural=pick.random() < 0.35, feminine=gender == "f")
        noun = word(*((plural, french_plural) if phrase.plural else (singular, french_singular)))
        most = min(2, max(0, budget - 2))
        adjectives = [self.adjective(phrase) for _ in range(most) if pick.random() < 0.6]
        if len(adjectives) == 2 and adjectives[0][0].english[0].text == adjectives[1][0].english[0].text:
            adjectives.pop()
        determiner = self.determiner(phrase)
        before = [adjective for adjective, place in adjectives if place == "before"]
        if before and determiner.french[0].text == "des":
            determiner.french[0].text = "de"  # de grands chapeaux
        determiner.french[0].possible = tuple(noun.english)  # the noun decides the form of its determiner
        # Two adjectives after the noun: the one nearest to it in English stays nearest in French.
        after = [adjective for adjective, place in adjectives if place == "after"][::-1]
        whole = rule(
            [determiner, *(adjective for adjective, _ in adjectives), noun],
            [determiner, *before, noun, *after],
        )
        return _as_noun_phrase(whole, phrase)

    def determiner(self, phrase: NounPhrase) -> Phrase:
        """the, a, this, my: agreeing in gender and number."""
        english = self.random.choices(list(DETERMINERS), DETERMINER_WEIGHTS)[0]
        masculine, feminine, plural = DETERMINERS[english]
        french = plural if phrase.plural else feminine if phrase.feminine else masculine
        if phrase.plural:
            english = {"this": "these", "a": "some"}.get(english, english)
        return word(english, french)

    def adjective(self, phrase: NounPhrase) -> tuple[Phrase, str]:
        """An adjective in agreement with the phrase, and where French puts it."""
        english, *forms, place = self.random.choice(ADJECTIVES)
        return word(english, forms[2 * phrase.plural + phrase.feminine]), place

    def possessive(self, budget: int) -> NounPhrase:
        """the king 's red horse -> le cheval rouge du roi: reversed, and the horse takes the article."""
        pick = self.random
        owner = self.simple(min(4, budget - 3))
        singular, plural, french_singular, french_plural, gender = pick.choice(NOUNS)
        phrase = NounPhrase([], [], plural=pick.random() < 0.35, feminine=gender == "f")
        noun = word(*((plural, french_plural) if phrase.plural else (singular, french_singular)))
        mark = word("'s", "de")
        # The article has no word of its own in English: the noun or the mark of possession stand for it.
        article = Word("les" if phrase.plural else "la" if phrase.feminine else "le",
                       possible=(*noun.english, *mark.english))
        adjectives = []
        if budget - len(owner.english) > 2 and pick.random() < 0.6:
            adjectives = [self.adjective(phrase)]
        before = [adjective for adjective, place in adjectives if place == "before"]
        after = [adjective for adjective, place in adjectives if place == "after"]
        whole = rule(
            [owner, mark, *(adjective for adjective, _ in adjectives), noun],
            [Phrase([], [article]), *before, noun, *after, mark, owner],
        )
        return _as_noun_phrase(whole, phrase)

    def placed(self, budget: int) -> NounPhrase:
        """the girl near the bridge -> la fille près du pont."""
        head = self.simple(min(4, budget - 3))
        place = word(*self.random.choice(PLACES))
        other = self.simple(budget - len(head.english) - len(place.english))
        return _as_noun_phrase(rule([head, place, other], [head, place, other]), head)

    def relative(self, budget: int) -> NounPhrase:
        """the man who sees the red cat -> l'homme qui voit le chat rouge."""
        head, who = self.simple(2), word("who", "qui")
        left = budget - len(head.english) - 2
        nothing = NounPhrase([], [], plural=head.plural)  # the subject of the clause is "who" itself
        if left >= 2:
            thing = self.simple(left)
            clause = self.predicate(nothing, self.random.choice(TRANSITIVE), [thing], [thing])
        else:
            third, plain, *french = self.random.choice(INTRANSITIVE)
            clause = self.predicate(nothing, [third, plain, "", *french], [], [])
        return _as_noun_phrase(rule([head, who, clause], [head, who, clause]), head)


def _as_noun_phrase(whole: Phrase, head: NounPhrase) -> NounPhrase:
    return NounPhrase(whole.english, whole.french, head.plural, head.feminine)


def finish(phrase: Phrase) -> Pair:
    """Settle the forms (a apple -> an apple, le arbre -> l' arbre, de le -> du), and freeze into a pair."""
    english, texts = [word.text for word in phrase.english], [word.text for word in phrase.french]
    place = {word: i for i, word in enumerate(phrase.english)}
    french, sure, possible = [], [], []
    for word, text, previous, following in zip(
        phrase.french, texts, ["", *texts], [*texts[1:], ""], strict=False
    ):
        # "le" before a vowel is elided, so it no longer merges: de l'arbre, but du roi.
        if (previous, text) in MERGED and not _elides(text, following):
            french[-1] = _french_form(MERGED[previous, text], following)
        else:
            french.append(_french_form(text, following))
        sure += [(place[twin], len(french) - 1) for twin in word.sure]
        possible += [(place[twin], len(french) - 1) for twin in word.possible]
    source = tuple(map(_english_form, english, [*english[1:], ""]))
    return Pair(source, tuple(french), Alignment(frozenset(sure), frozenset(sure + possible)))


def _elides(text: str, following: str) -> bool:
    return text in ELIDED and following.startswith(VOWELS)


def _french_form(text: str, following: str) -> str:
    """What a vowel does to the word before it: l'arbre, mon abeille, cet arbre."""
    return BEFORE_VOWEL[text] if text in BEFORE_VOWEL and following.startswith(VOWELS) else text


def _english_form(text: str, following: str) -> str:
    return "an" if text == "a" and following.startswith(("a", "e", "i", "o", "u")) else text


def sentences(count: int, low: int, high: int, seed: int | str) -> list[Pair]:
    """`count` different sentences of `low` to `high` English words, lengths spread evenly.

    Raises:
        ValueError: an impossible number or range, or a range with too few different sentences.
    """
    check_counts(0, count=count)
    if not 3 <= low <= high:
        raise ValueError(f"low is {low} and high is {high}: they need 3 <= low <= high")
    grammar, found, in_vain = Grammar(seed), {}, 0
    while len(found) < count:
        known = len(found)
        phrase = grammar.sentence(grammar.random.randint(low, high))
        if low <= len(phrase.english) <= high:
            pair = finish(phrase)
            found.setdefault(pair.source, pair)
        in_vain = in_vain + 1 if len(found) == known else 0
        if in_vain == 5_000:
            raise ValueError(f"count is {count}: there are too few different sentences of {low} to {high} "
                             f"words; {known} were found")
    return list(found.values())


def translation_corpus(
    train: int = 20_000, *, longest: int = 30, dev: int = 300, test: int = 1_000, seed: int = 0
) -> Corpus:
    """English to French with gold alignments; train, dev and test share no sentence.

    Half the training sentences have 3 to `longest`/2 words, half 3 to `longest`. Without so many short ones,
    the attention weights of a translator trained for a minute do not come to rest on the right words.

    Args:
        train: number of training pairs.
        longest: most English words in a training, dev or test sentence.
        dev: number of dev pairs, 3 to `longest` words.
        test: number of test pairs, 3 to `longest` words; `sentences` makes more, of any length.
        seed: another seed, another corpus of the same language.

    Raises:
        ValueError: a number out of range.
    """
    check_counts(2, train=train)
    check_counts(0, dev=dev, test=test, seed=seed)
    check_counts(6, longest=longest)
    held_out = sentences(dev + test, 3, longest, f"{seed} held out")
    seen = {pair.source for pair in held_out}
    short = sentences(train // 2, 3, longest // 2, f"{seed} short")
    whole = sentences(train - train // 2, 3, longest, f"{seed} whole")
    merged = {pair.source: pair for pair in short + whole if pair.source not in seen}
    pairs = list(merged.values())
    return Corpus(
        name="translation",
        train=pairs,
        dev=held_out[:dev],
        test=held_out[dev:],
        source_vocabulary=Vocabulary.from_sentences(pair.source for pair in pairs),
        target_vocabulary=Vocabulary.from_sentences(pair.target for pair in pairs),
    )
