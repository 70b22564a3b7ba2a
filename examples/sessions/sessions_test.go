package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/examples/internal/page"
)

func TestPicture(t *testing.T) { page.Picture(t, func(flow *dataflow.Flow) { build(flow) }) }

// lines runs the program and returns its output, sorted: the lines printed at the end of time
// have no order.
func lines(t *testing.T, clicks string) []string {
	t.Helper()
	var printed strings.Builder
	if err := run(t.Context(), strings.NewReader(clicks), &printed); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(printed.String()), "\n"))
}

// TestRun reads clicks that are nearly in order. One pause ends a visit, and one late click joins
// two visits.
func TestRun(t *testing.T) {
	clicks, err := os.ReadFile("testdata/clicks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"page":"/","from":"2026-11-01T12:00:00Z","to":"2026-11-01T13:00:00Z","clicks":3}`,
		`{"page":"/rice","from":"2026-11-01T13:00:00Z","to":"2026-11-01T14:00:00Z","clicks":1}`,
		`{"page":"/tea","from":"2026-11-01T12:00:00Z","to":"2026-11-01T13:00:00Z","clicks":1}`,
		`{"visitor":"ann","from":"2026-11-01T12:00:00Z","to":"2026-11-01T12:30:10Z","clicks":3,"pages":{"/":2,"/tea":1}}`,
		`{"visitor":"bob","from":"2026-11-01T12:29:40Z","to":"2026-11-01T12:29:40Z","clicks":1,"pages":{"/":1}}`,
		`{"visitor":"bob","from":"2026-11-01T13:00:00Z","to":"2026-11-01T13:00:00Z","clicks":1,"pages":{"/rice":1}}`,
	}
	if got := lines(t, string(clicks)); !slices.Equal(got, want) {
		t.Errorf("the program prints\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestByHand reads a day's clicks, out of order by less than the slack, and compares the output
// with the sessions that byHand finds in the sorted clicks.
func TestByHand(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var clicks []Click
		for at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC); len(clicks) < 200; at = at.Add(time.Duration(rng.IntN(1200)) * time.Second) {
			clicks = append(clicks, Click{fmt.Sprint("visitor ", rng.IntN(4)), fmt.Sprint("/", rng.IntN(3)), at})
		}
		want := byHand(clicks)
		late := make(map[Click]time.Time, len(clicks)) // when the reader receives it
		for _, c := range clicks {
			late[c] = c.Time.Add(time.Duration(rng.IntN(60)) * time.Second)
		}
		slices.SortFunc(clicks, func(a, b Click) int { return late[a].Compare(late[b]) })
		var input strings.Builder
		for _, c := range clicks {
			if err := json.NewEncoder(&input).Encode(c); err != nil {
				t.Fatal(err)
			}
		}
		if got := lines(t, input.String()); !slices.Equal(got, want) {
			t.Fatalf("seed %d: the program prints\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// byHand returns the lines for clicks that are in order.
func byHand(clicks []Click) (lines []string) {
	hours, visits := make(map[string]*line), make(map[string]*line) // by page and hour, and the last one by visitor
	var all []*line
	add := func(l line) *line {
		all = append(all, &l)
		return &l
	}
	for _, c := range clicks {
		from := c.Time.Truncate(time.Hour)
		hour := fmt.Sprint(c.Page, from)
		if hours[hour] == nil {
			hours[hour] = add(line{Page: c.Page, From: from, To: from.Add(time.Hour)})
		}
		hours[hour].Clicks++
		v := visits[c.Visitor]
		if v == nil || c.Time.Sub(v.To) >= pause {
			v = add(line{Visitor: c.Visitor, From: c.Time, Pages: make(map[string]int)})
			visits[c.Visitor] = v
		}
		v.To = c.Time
		v.Clicks++
		v.Pages[c.Page]++
	}
	for _, l := range all {
		text, _ := json.Marshal(l)
		lines = append(lines, string(text))
	}
	slices.Sort(lines)
	return lines
}

// TestBadInput checks that the program reports input that it cannot read, and prints the results so far.
func TestBadInput(t *testing.T) {
	var printed strings.Builder
	err := run(t.Context(), strings.NewReader(`{"visitor":"ann","page":"/","time":"2026-11-01T12:00:00Z"}
{"visitor":`), &printed)
	if err == nil || !strings.Contains(err.Error(), "reading clicks") || strings.Count(printed.String(), "\n") != 2 {
		t.Errorf("%v, printed %q", err, printed.String())
	}
}
