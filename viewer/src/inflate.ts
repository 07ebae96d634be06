// Large pages are compressed: raw deflate (RFC 1951), written in base64 by graphad/viewing/page.py.
//
// The browser's own DecompressionStream answers later; here the page is there as soon as it is loaded, as a small one is.

const MOST_BITS = 15;
const LITERALS = 256; // codes below it are bytes, it is the end of a block, and those above it are lengths
const REPEAT = [16, 17, 18];
const LENGTHS_OF_LENGTHS = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

// Section 3.2.5: the least length and distance of each code, and how many bits follow it.
const LENGTH_BITS = Array.from({ length: 29 }, (_, code) => (code < 8 || code === 28 ? 0 : (code - 4) >> 2));
const LENGTHS = leasts(LENGTH_BITS.slice(0, 28), 3).concat(258);
const DISTANCE_BITS = Array.from({ length: 30 }, (_, code) => (code < 4 ? 0 : (code - 2) >> 1));
const DISTANCES = leasts(DISTANCE_BITS, 1);

/** The text that was compressed into so many bytes. */
export function inflated(base64: string, size: number): string {
  const packed = atob(base64);
  const source = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) source[i] = packed.charCodeAt(i);
  return new TextDecoder().decode(new Inflation(source, size).run());
}

/** A prefix code: for each sequence of so many bits the symbol that it begins with, and of how many bits that is. */
class Code {
  readonly bits: number;
  readonly table: Uint16Array;

  constructor(lengths: number[]) {
    this.bits = Math.max(...lengths, 1);
    this.table = new Uint16Array(1 << this.bits);
    let next = 0;
    for (let length = 1; length <= this.bits; length++) {
      for (let symbol = 0; symbol < lengths.length; symbol++) {
        if (lengths[symbol] !== length) continue;
        // Codes are stored with their first bit lowest; every longer sequence that begins with one stands for it, too.
        for (let at = reversed(next, length); at < this.table.length; at += 1 << length) this.table[at] = (symbol << 4) | length;
        next++;
      }
      next <<= 1;
    }
  }
}

class Inflation {
  private readonly target: Uint8Array;
  private at = 0;
  private from = 0;
  private held = 0;
  private count = 0; // of bits that are held

  constructor(private readonly source: Uint8Array, size: number) {
    this.target = new Uint8Array(size);
  }

  run(): Uint8Array {
    for (let isLast = 0; !isLast; ) {
      isLast = this.take(1);
      const kind = this.take(2);
      if (kind === 0) this.copy();
      else if (kind === 1) this.block(new Code(fixedLengths()), new Code(Array<number>(30).fill(5)));
      else this.block(...this.codes());
    }
    return this.target;
  }

  private take(bits: number): number {
    this.hold(bits);
    const taken = this.held & ((1 << bits) - 1);
    this.held >>>= bits;
    this.count -= bits;
    return taken;
  }

  private hold(bits: number): void {
    for (; this.count < bits; this.count += 8) this.held |= (this.source[this.from++] ?? 0) << this.count;
  }

  private symbol(code: Code): number {
    this.hold(MOST_BITS);
    const entry = code.table[this.held & ((1 << code.bits) - 1)]!;
    this.held >>>= entry & 15;
    this.count -= entry & 15;
    return entry >> 4;
  }

  /** A block that is not compressed: from the next whole byte on. */
  private copy(): void {
    this.take(this.count & 7);
    const size = this.take(16);
    this.take(16);
    while (this.count > 0) (this.from--, (this.count -= 8));
    this.held = 0;
    this.target.set(this.source.subarray(this.from, this.from + size), this.at);
    this.from += size;
    this.at += size;
  }

  private codes(): [Code, Code] {
    const [literals, distances, count] = [this.take(5) + 257, this.take(5) + 1, this.take(4) + 4];
    const bits = Array<number>(19).fill(0);
    for (const symbol of LENGTHS_OF_LENGTHS.slice(0, count)) bits[symbol] = this.take(3);
    const code = new Code(bits);
    const lengths: number[] = [];
    while (lengths.length < literals + distances) {
      const symbol = this.symbol(code);
      if (!REPEAT.includes(symbol)) lengths.push(symbol);
      else {
        const times = symbol === 16 ? 3 + this.take(2) : symbol === 17 ? 3 + this.take(3) : 11 + this.take(7);
        const repeated = symbol === 16 ? lengths[lengths.length - 1]! : 0;
        for (let i = 0; i < times; i++) lengths.push(repeated);
      }
    }
    return [new Code(lengths.slice(0, literals)), new Code(lengths.slice(literals))];
  }

  private block(literals: Code, distances: Code): void {
    const { target } = this;
    for (let symbol = this.symbol(literals); symbol !== LITERALS; symbol = this.symbol(literals)) {
      if (symbol < LITERALS) target[this.at++] = symbol;
      else {
        const length = LENGTHS[symbol - LITERALS - 1]! + this.take(LENGTH_BITS[symbol - LITERALS - 1]!);
        const place = this.symbol(distances);
        const distance = DISTANCES[place]! + this.take(DISTANCE_BITS[place]!);
        // Byte by byte: what is copied may reach into what it writes.
        for (const end = this.at + length; this.at < end; this.at++) target[this.at] = target[this.at - distance]!;
      }
    }
  }
}

function leasts(bits: number[], first: number): number[] {
  const result = [first];
  for (const count of bits) result.push(result[result.length - 1]! + (1 << count));
  return result.slice(0, bits.length);
}

function reversed(code: number, length: number): number {
  let result = 0;
  for (let i = 0; i < length; i++) result |= ((code >> i) & 1) << (length - 1 - i);
  return result;
}

function fixedLengths(): number[] {
  return Array.from({ length: 288 }, (_, symbol) => (symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8));
}
