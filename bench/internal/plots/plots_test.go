package plots

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestSave(t *testing.T) {
	for _, logY := range []bool{false, true} {
		p := Plot{Title: "cost", X: "keys", Y: "ns", LogY: logY, Lines: []Line{
			{"hand", []Point{{1, 2, 3, 4}, {1000, 4, 5, 6}}},
			{"millrace", []Point{{1, 1, 2, 3}, {1000, 400, 500, 600}}},
		}}
		file := filepath.Join(t.TempDir(), "plot.svg")
		if err := p.Save(file); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"<svg", "millrace", "keys", "1k", "</svg>"} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("log=%v: no %s in the plot", logY, want)
			}
		}
	}
}

func TestShort(t *testing.T) {
	for x, want := range map[float64]string{1: "1", 0.25: "0.25", 1000: "1k", 10_000_000: "10M"} {
		if got := short(x); got != want {
			t.Errorf("short(%v) = %s, want %s", x, got, want)
		}
	}
}
