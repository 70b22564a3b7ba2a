package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestToolHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("Bearer canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const a, b = "http://a.test:1/x", "https://b.test"
	for _, tt := range []struct {
		tools []string
		given []string
		want  string // the headers, or a part of the error
	}{
		{[]string{a}, nil, "map[]"},
		{[]string{a + "/"}, []string{"X-Key=k=1|2", "authorization=@" + file}, "map[http://a.test:1/x:map[Authorization:[Bearer canary] X-Key:[k=1|2]]]"},
		{[]string{a, b}, []string{b + "|X-Key=canary", a + "/|X-Key=other", a + "|X-Key=more"}, "map[http://a.test:1/x:map[X-Key:[other more]] https://b.test:map[X-Key:[canary]]]"},
		{[]string{a, b}, []string{"X-Key=canary"}, `--tool-header "X-Key": there are 2 tool servers: say which one it is for`},
		{[]string{a}, []string{a + "=X-Key=canary"}, "has a URL and no |"},
		{[]string{a}, []string{"canary"}, "number 1 is not NAME=VALUE"},
		{[]string{a}, []string{"X=y", "=canary"}, "number 2 is not NAME=VALUE"},
		{[]string{a}, []string{"X=@/no/such/file"}, "no such file"},
	} {
		got, err := headerFlags(tt.given).of(tt.tools)
		if err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary")) || err == nil && fmt.Sprint(got) != tt.want {
			t.Errorf("%q for %q: %v, %v, want %s", tt.given, tt.tools, got, err, tt.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]string{
		"65536": "64KiB", "1MiB": "1MiB", "8 MiB": "8MiB", "100000": "100000", "64MiB": "64MiB",
		"65MiB": "", "1": "", "0": "", "-1": "", "1GiB": "", "1.5MiB": "", "": "", "99999999999999999999": "",
	} {
		var s size
		if err := s.Set(text); err == nil && s.String() != want || err != nil && want != "" {
			t.Errorf("%q: %v, %v, want %q", text, s.String(), err, want)
		}
	}
}

// TestToolHeaderIsNotRepeated checks that no message contains a header value of the
// command line, even an invalid one.
func TestToolHeaderIsNotRepeated(t *testing.T) {
	for name, command := range map[string]func(context.Context, []string) error{"run": run, "serve": serve} {
		said := stderrOf(t, func() {
			for _, header := range []string{"canary", "X Y=canary", "Host=canary", "X-Key=canary\x01", "http://a.test=X=canary", "http://gone.test|X=canary"} {
				args := []string{"--tool", "http://127.0.0.1:1", "--tool-header", header}
				if name == "serve" {
					args = append(args, "--state", t.TempDir())
				}
				if err := command(t.Context(), args); err == nil {
					t.Errorf("%q was taken", header)
				} else {
					fmt.Fprintln(os.Stderr, err)
				}
			}
		})
		if strings.Contains(said, "canary") || !strings.Contains(said, "tool-header") {
			t.Errorf("it was said: %.2000s", said)
		}
	}
}

// stderrOf returns what do writes to standard error.
func stderrOf(t *testing.T, do func()) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := os.Stderr
	os.Stderr = f
	defer func() { os.Stderr = before }()
	do()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
