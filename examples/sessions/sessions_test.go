package main

import (
	"slices"
	"strings"
	"testing"
)

// TestRun reads clicks that are nearly in order, a pause that ends a visit, and one that bridges
// two visits because it comes late.
func TestRun(t *testing.T) {
	const clicks = `{"visitor":"ann","page":"/","time":"2026-11-01T12:00:00Z"}
{"visitor":"bob","page":"/","time":"2026-11-01T12:29:40Z"}
{"visitor":"ann","page":"/tea","time":"2026-11-01T12:30:10Z"}
{"visitor":"ann","page":"/","time":"2026-11-01T12:29:50Z"}
{"visitor":"bob","page":"/rice","time":"2026-11-01T13:00:00Z"}
`
	want := []string{
		`{"visitor":"ann","from":"2026-11-01T12:00:00Z","last":"2026-11-01T12:30:10Z","clicks":3,"pages":{"/":2,"/tea":1}}`,
		`{"visitor":"bob","from":"2026-11-01T12:29:40Z","last":"2026-11-01T12:29:40Z","clicks":1,"pages":{"/":1}}`,
		`{"visitor":"bob","from":"2026-11-01T13:00:00Z","last":"2026-11-01T13:00:00Z","clicks":1,"pages":{"/rice":1}}`,
	}
	var visits strings.Builder
	if err := run(t.Context(), strings.NewReader(clicks), &visits); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(visits.String()), "\n")
	slices.Sort(got) // visits that end at the end of time have no order
	if !slices.Equal(got, want) {
		t.Errorf("the visits are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestBadInput says which line cannot be read, and prints what came before.
func TestBadInput(t *testing.T) {
	var visits strings.Builder
	err := run(t.Context(), strings.NewReader(`{"visitor":"ann","page":"/","time":"2026-11-01T12:00:00Z"}
{"visitor":`), &visits)
	if err == nil || !strings.Contains(err.Error(), "reading clicks") || strings.Count(visits.String(), "\n") != 1 {
		t.Errorf("%v, printed %q", err, visits.String())
	}
}
