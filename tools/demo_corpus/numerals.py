"""Numbers from 0 to 9999 in words and in digits, in English and in German."""

_EN_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_EN_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_DE_SMALL = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
_DE_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def _check(n):
    if not 0 <= n <= 9999:
        raise ValueError(f"numbers go from 0 to 9999, not {n}")


def english(n):
    """The English words for `n`: 121 is "one hundred and twenty-one"."""
    _check(n)
    if n < 20:
        return _EN_SMALL[n]
    if n < 100:
        tens, unit = divmod(n, 10)
        return _EN_TENS[tens] + (f"-{_EN_SMALL[unit]}" if unit else "")
    if n < 1000:
        hundreds, below = divmod(n, 100)
        return f"{_EN_SMALL[hundreds]} hundred" + (f" and {english(below)}" if below else "")
    thousands, below = divmod(n, 1000)
    link = " and " if 0 < below < 100 else " "
    return f"{_EN_SMALL[thousands]} thousand" + (link + english(below) if below else "")


def german(n):
    """The German word for `n` as one counts: 121 is "hunderteinundzwanzig"."""
    _check(n)
    if n < 20:
        return _DE_SMALL[n]
    if n < 100:
        tens, unit = divmod(n, 10)
        # The unit comes first and "eins" loses its s: einundzwanzig.
        front = f"{'ein' if unit == 1 else _DE_SMALL[unit]}und" if unit else ""
        return front + _DE_TENS[tens]
    if n < 1000:
        hundreds, below = divmod(n, 100)
        front = "" if hundreds == 1 else _DE_SMALL[hundreds]
        return f"{front}hundert" + (german(below) if below else "")
    thousands, below = divmod(n, 1000)
    front = "" if thousands == 1 else _DE_SMALL[thousands]
    # Behind the thousands one hundred is always said in full: tausendeinhundert.
    one = "ein" if 100 <= below < 200 else ""
    return f"{front}tausend" + (one + german(below) if below else "")


def english_digits(n):
    """`n` in digits with the English thousands' comma: 1,200."""
    return f"{n:,}"


def german_digits(n):
    """`n` in digits with the German thousands' point: 1.200."""
    return f"{n:,}".replace(",", ".")
