package jobs

import (
	"fmt"
	"os"
	"testing"
)

// A digest sums up the words of a job's input.
type digest uint64

func (d *digest) add(words ...uint64) {
	for _, w := range words {
		*d = (*d ^ digest(w)) * 0x100000001b3
		*d ^= *d >> 29
	}
}

func digestOf[T any](elements []T, words func(T) []uint64) (d digest) {
	for _, x := range elements {
		d.add(words(x)...)
	}
	return d
}

// TestDigests checks that the jobs have the input that bench/peers-rust has, which compares with
// the same file.
func TestDigests(t *testing.T) {
	word := func(w uint64) []uint64 { return []uint64{w} }
	number := func(i int) []uint64 { return []uint64{uint64(i)} }
	pair := func(r request) []uint64 { return []uint64{r.Client, r.Seq} }
	text := func(s string) []uint64 {
		words := []uint64{uint64(len(s))}
		for i := range len(s) {
			words = append(words, uint64(s[i]))
		}
		return words
	}
	cast := func(v vote) []uint64 { return []uint64{v.Request.Client, v.Request.Seq, uint64(v.Replica)} }
	var got string
	for _, x := range []struct {
		name   string
		digest digest
	}{
		{"chain predictable", digestOf(chainData(func(i int) int { return i }), number)},
		{"chain random", digestOf(randomInts(), number)},
		{"first uint64 1000", digestOf(draw(makeKeys(1000, wordKey)), word)},
		{"first string 1000", digestOf(draw(makeKeys(1000, textKey)), text)},
		{"first struct 1000", digestOf(draw(makeKeys(1000, requestKey)), pair)},
		{"votes 1000", digestOf(votes(requests, 1000), cast)},
		{"asked 1000", digestOf(asked(1000), word)},
		{"asked 1000000", digestOf(asked(1_000_000), word)},
	} {
		got += fmt.Sprintf("%s %016x\n", x.name, uint64(x.digest))
	}
	want, err := os.ReadFile("../../peers-rust/digests.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the input has the digests\n%s\nand bench/peers-rust has\n%s", got, want)
	}
}
