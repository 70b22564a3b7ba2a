package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Content is what a collection holds at one moment: everything that a stream has had
// so far, or the current value of a collection that is revised. The kind of the
// collection determines which field counts.
type Content struct {
	List    []int         // a stream
	Keyed   map[int][]int // a keyed stream
	Entries map[int]int   // a keyed singleton
	Value   int           // a singleton, or an optional if OK
	OK      bool
}

// A shape says which field of a content counts.
type shape int

const (
	listed shape = iota
	keyed
	entered
	single
	perhaps
)

// A kind describes the type of a collection.
type kind struct {
	shape   shape
	ordered bool // the elements of a stream, or those within a key
	inside  bool // in a slice
	word    string
}

// text formats a content for failures. Contents that are equal for a collection of
// this kind have the same text.
func (k kind) text(c Content) string {
	list := func(xs []int) string {
		if !k.ordered {
			xs = slices.Sorted(slices.Values(xs))
		}
		return fmt.Sprint(xs)
	}
	var words []string
	switch k.shape {
	case listed:
		return list(c.List)
	case keyed:
		for _, key := range slices.Sorted(maps.Keys(c.Keyed)) {
			if len(c.Keyed[key]) > 0 {
				words = append(words, fmt.Sprint(key, ":", list(c.Keyed[key])))
			}
		}
	case entered:
		for _, key := range slices.Sorted(maps.Keys(c.Entries)) {
			words = append(words, fmt.Sprint(key, ":", c.Entries[key]))
		}
	case single:
		return fmt.Sprint(c.Value)
	case perhaps:
		if !c.OK {
			return "none"
		}
		return fmt.Sprint(c.Value)
	}
	return "{" + strings.Join(words, " ") + "}"
}

// size returns how much has arrived so far of a collection that only grows.
func (c Content) size() int {
	n := len(c.List) + len(c.Entries)
	for _, vs := range c.Keyed {
		n += len(vs)
	}
	return n
}

// since returns what c contains beyond before, which is a batch.
func (k kind) since(c, before Content) Content {
	switch k.shape {
	case listed:
		return Content{List: k.rest(c.List, before.List)}
	case keyed:
		out := Content{Keyed: make(map[int][]int)}
		for key, vs := range c.Keyed {
			if rest := k.rest(vs, before.Keyed[key]); len(rest) > 0 {
				out.Keyed[key] = rest
			}
		}
		return out
	}
	out := Content{Entries: make(map[int]int)}
	for key, v := range c.Entries {
		if _, old := before.Entries[key]; !old {
			out.Entries[key] = v
		}
	}
	return out
}

// rest returns xs without before: what follows it, or, without order, what occurs more
// often in xs.
func (k kind) rest(xs, before []int) []int {
	if k.ordered {
		if len(before) > len(xs) || !slices.Equal(xs[:len(before)], before) {
			panic(fmt.Sprintf("model: a stream was %v and is %v: an operator of the model is wrong", before, xs))
		}
		return xs[len(before):]
	}
	left := make(map[int]int)
	for _, x := range before {
		left[x]++
	}
	var out []int
	for _, x := range xs {
		if left[x] > 0 {
			left[x]--
			continue
		}
		out = append(out, x)
	}
	return out
}
