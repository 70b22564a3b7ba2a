package main

import (
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var mutate = flag.Bool("mutate", false, "try all mutations, which takes minutes")

// TestApply checks that each mutation of the table can be applied to the source.
func TestApply(t *testing.T) {
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, m := range mutations {
		if seen[m.name] {
			t.Errorf("there are two mutations %q", m.name)
		}
		seen[m.name] = true
		if _, err := m.broken(dir); err != nil {
			t.Error(err)
		}
	}
	if len(mutations) < 10 {
		t.Errorf("only %d mutations", len(mutations))
	}
}

// TestReadme checks that the README lists every mutation.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		if !strings.Contains(string(text), "| "+m.name+" |") {
			t.Errorf("README.md does not have the mutation %q: go run ./internal/mutation -write", m.name)
		}
	}
}

// TestMutations tries all mutations if -mutate is set.
func TestMutations(t *testing.T) {
	if !*mutate {
		t.Skip("only with -mutate, since it takes minutes")
	}
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	all, err := run(dir, regexp.MustCompile(""), regexp.MustCompile(""), t.Output())
	if errors.Is(err, errSurvived) {
		t.Errorf("a mutation survives:\n%s", table(all))
	} else if err != nil {
		t.Error(err)
	}
}

// TestFailures checks that failures finds the failed tests in the output of go test -json.
func TestFailures(t *testing.T) {
	got, err := failures(strings.NewReader(`{"Action":"start","Package":"github.com/millrace/millrace/slice"}
{"Action":"fail","Package":"github.com/millrace/millrace/slice","Test":"TestA/one"}
{"Action":"fail","Package":"github.com/millrace/millrace/slice","Test":"TestA"}
{"Action":"fail","Package":"github.com/millrace/millrace/slice","Test":"TestB"}
{"Action":"fail","Package":"github.com/millrace/millrace/slice"}
{"Action":"pass","Package":"github.com/millrace/millrace/dataflow","Test":"TestC"}
{"Action":"fail","Package":"github.com/millrace/millrace/keyedstream"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if text := names(got["slice"]); text != "`TestA/one` and 1 more" {
		t.Errorf("slice: %s", text)
	}
	if text := names(got["keyedstream"]); text != "`the whole package`" {
		t.Errorf("keyedstream: %s", text)
	}
	if len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if _, err := failures(strings.NewReader(`{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`)); err == nil {
		t.Error("tests that do not compile count as tests that noticed")
	}
}
