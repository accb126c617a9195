"""Writes functions.tsv from implementations that are not ours. See README.md.

Needs: PostgreSQL's psql on PGHOST, java 17, and the packages xxhash, mmh3, pycryptodome, kafka-python, siphashc.
"""
import binascii, datetime, hashlib, io, os, random, struct, subprocess, sys, zlib, zoneinfo

import mmh3, siphashc, xxhash
from Crypto.Cipher import DES
from kafka.partitioner.default import murmur2

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 64) - 1
rng = random.Random(2026)

INTEGERS = [0, 1, -1, 2, 3, 7, 42, 1024, -1024, (1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1, (1 << 32) - 1, 1 << 32,
            (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), -(1 << 63) + 1, 5_000_000_000]
INTEGERS += [rng.getrandbits(64) - (1 << 63) for _ in range(150)] + [rng.randrange(-10_000, 10_000) for _ in range(50)]
TEXTS = ["", "a", "Aa", "BB", "abc", "hello world!", "hello world!!", "polygenelubricants", "中文😀", "\U0001F600", "\U00020BB7", "é", "e\u0301",
         "foo{bar}zap", "foo{}{bar}", "foo{{bar}}zap", "{user1000}.following", "{", "}", "{}", "\x00", "2000|7|x", "ÄÖÜß", "0", "-1", "x" * 300]
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEF0123456789-_{}é漢字😀"
TEXTS += ["".join(rng.choice(ALPHABET) for _ in range(rng.randrange(0, 40))) for _ in range(200)]
BYTES = [b"", b"\x00", b"\xff", bytes(range(256)), b"\xfe" * 8, b"\x10" * 16] + [rng.randbytes(rng.randrange(0, 60)) for _ in range(100)]
SEEDS = [0, 1, 42, MASK, 1 << 63, 0x7A5B22367996DCFD]


def s(text):
    return "s:" + text.encode().hex()


def b(data):
    return "b:" + data.hex()


def line(function, *cells):
    print(function, *cells, sep="\t")


def fnv(data, bits):
    value, prime = (0xcbf29ce484222325, 0x100000001b3) if bits == 64 else (0x811c9dc5, 0x01000193)
    for byte in data:
        value = ((value ^ byte) * prime) & ((1 << bits) - 1)
    return value


def hashes():
    for data in [text.encode() for text in TEXTS] + BYTES:
        for seed in [0, rng.choice(SEEDS)]:
            short = seed & 0xffffffff
            line("xxh3_64", b(data), seed, xxhash.xxh3_64_intdigest(data, seed=seed))
            line("xxh64", b(data), seed, xxhash.xxh64_intdigest(data, seed=seed))
            line("xxh32", b(data), short, xxhash.xxh32_intdigest(data, seed=short))
            line("murmur3_32", b(data), short, mmh3.hash(data, short, signed=False))
            line("murmur3_128", b(data), short, mmh3.hash64(data, short, signed=False)[0])
            line("siphash24", b(data), seed, siphashc.siphash(struct.pack("<QQ", seed, 0), data))
            line("crc32", b(data), short, zlib.crc32(data, short))
        line("fnv1a_64", b(data), 0, fnv(data, 64))
        line("fnv1a_32", b(data), 0, fnv(data, 32))
        line("md5_high", b(data), 0, int.from_bytes(hashlib.md5(data).digest()[:8], "big"))
        line("sha1_high", b(data), 0, int.from_bytes(hashlib.sha1(data).digest()[:8], "big"))


def redis_slot(key):
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1:end]
    return binascii.crc_hqx(key, 0) % 16384


def foreign():
    for data in [text.encode() for text in TEXTS] + BYTES:
        line("redis_slot", b(data), redis_slot(data))
        line("mysql_crc32", b(data), zlib.crc32(data))
        line("vitess_xxhash", b(data), int.from_bytes(struct.pack("<Q", xxhash.xxh64_intdigest(data)), "big"))
        line("vitess_binary_md5", b(data), int.from_bytes(hashlib.md5(data).digest()[:8], "big"))
        line("kafka_partition", b(data), 16, (murmur2(data) & 0x7fffffff) % 16)
    for number in INTEGERS:
        cipher = DES.new(bytes(8), DES.MODE_ECB)
        line("vitess_hash", number & MASK, int.from_bytes(cipher.encrypt(struct.pack(">Q", number & MASK)), "big"))


def java():
    questions = [("java_string", s(text), f"string\t{text.encode().hex()}") for text in TEXTS]
    questions += [("java_bytes", b(data), f"bytes\t{data.hex()}") for data in BYTES]
    questions += [("java_long", number, f"long\t{number}") for number in INTEGERS]
    answers = subprocess.run(["java", os.path.join(HERE, "Golden.java")], input="\n".join(q[2] for q in questions) + "\n",
                             capture_output=True, text=True, check=True).stdout.split()
    for (function, argument, _), answer in zip(questions, answers, strict=True):
        line(function, argument, answer)


def postgres():
    """PostgreSQL's own functions, and which of its partitions it accepts a value in."""
    partitions = [1, 2, 3, 7, 16, 32]
    sql, heads = [], []

    def ask(expression, *head):
        sql.append(f"select {expression};")
        heads.append(head)

    setup = ["set client_min_messages = error;", "create temp table pi (v int8) partition by hash (v);",
             "create temp table pt (v text) partition by hash (v);"]

    def where(table, literal, kind, n):
        cases = " ".join(f"when satisfies_hash_partition('{table}'::regclass, {n}, {r}, {literal}::{kind}) then {r}" for r in range(n))
        return f"case {cases} end"

    def quoted(text):
        return "convert_from('\\x" + text.encode().hex() + "'::bytea, 'UTF8')"

    for number in INTEGERS:
        seed = rng.choice(SEEDS)
        signed = seed - (1 << 64) if seed >> 63 else seed
        ask(f"hashint8('{number}'::int8)", "postgres_integer", number)
        ask(f"hashint8extended('{number}'::int8, '{signed}'::int8)", "postgres_integer_extended", number, seed)
        n = rng.choice(partitions)
        ask(where("pi", f"'{number}'", "int8", n), "postgres_partition_integer", number, n)
    for text in TEXTS:
        if "\x00" in text:
            continue
        seed = rng.choice(SEEDS)
        signed = seed - (1 << 64) if seed >> 63 else seed
        ask(f"hashtext({quoted(text)})", "postgres_bytes", b(text.encode()))
        ask(f"hashtextextended({quoted(text)}, '{signed}'::int8)", "postgres_bytes_extended", b(text.encode()), seed)
        n = rng.choice(partitions)
        ask(where("pt", quoted(text), "text", n), "postgres_partition_bytes", b(text.encode()), n)
    answers = subprocess.run(["psql", "-XqtA", "-d", "postgres"], input="\n".join(setup + sql), capture_output=True, text=True,
                             check=True).stdout.split()
    for head, answer in zip(heads, answers, strict=True):
        line(*head, answer)


def zone(name):
    with open(os.path.join(HERE, "../zones/2026f.bin"), "rb") as file:
        data = file.read()
    count, at, found = struct.unpack(">H", data[8:10])[0], 10, None
    for _ in range(count):
        length = data[at]
        entry, start, size = data[at + 1:at + 1 + length].decode(), *struct.unpack(">II", data[at + 1 + length:at + 9 + length])
        at += 9 + length
        if entry == name:
            found = (start, size)
    start, size = found
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(data[at + start:at + start + size]), key=name)


def calendar():
    """year quarter month day day_of_week day_of_year week week_year hour minute second, as one line."""
    names = ["UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana",
             "Africa/Casablanca", "Asia/Kathmandu", "America/Sao_Paulo"]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    second = datetime.timedelta(seconds=1)
    hard = ["1970-01-01T00:00:00", "1969-12-31T23:59:59", "2000-02-29T12:00:00", "1900-02-28T23:59:59", "2024-02-29T23:59:59",
            "2026-03-08T06:59:59", "2026-03-08T07:00:00", "2026-11-01T05:30:00", "2026-11-01T06:30:00", "2011-12-30T09:59:59",
            "2011-12-30T10:00:00", "2009-12-31T23:00:00", "2010-01-03T23:59:59", "0009-06-01T00:00:00", "2037-12-31T23:59:59",
            "2038-01-19T03:14:08", "2099-07-01T00:00:00", "2100-07-01T00:00:00", "2500-01-01T00:00:00", "9999-06-30T00:00:00"]
    for name in names:
        tz = datetime.timezone.utc if name == "UTC" else zone(name)
        moments = [datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc) for text in hard]
        moments += [epoch + second * rng.randrange(-2_208_988_800, 4_102_444_800) for _ in range(150)]
        moments += [epoch + second * rng.randrange(-61_000_000_000, 250_000_000_000) for _ in range(50)]
        for moment in moments:
            local = moment.astimezone(tz)
            iso = local.isocalendar()
            line("calendar", s(name), (moment - epoch) // second * 1_000_000 + rng.randrange(1_000_000), local.year,
                 (local.month - 1) // 3 + 1, local.month, local.day, iso.weekday, local.timetuple().tm_yday, iso.week, iso.year,
                 local.hour, local.minute, local.second)


def jump(key, buckets):
    b, j = -1, 0
    while j < buckets:
        b = j
        key = (key * 2862933555777941757 + 1) & MASK
        j = int(float(b + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return max(b, 0)


def numbers():
    for number in INTEGERS:
        for modulus in [1, 2, 7, 1024, (1 << 63) - 1]:
            line("modulo", number, modulus, number % modulus)
            line("floor_divide", number, modulus, number // modulus)
        for buckets in [1, 2, 10, 1000, (1 << 32) - 1]:
            line("jump", number & MASK, buckets, jump(number & MASK, buckets))


for part in [numbers, hashes, foreign, java, postgres, calendar]:
    part()
    print(part.__name__, file=sys.stderr)
