package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain makes this test the bare handlers, too: they are started as this program in another role.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-as" {
		if err := run(context.Background()); err != nil {
			warn(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestBare measures the bare forms for a moment. Each call is checked.
func TestBare(t *testing.T) {
	c := config{warm: 10 * time.Millisecond, lasts: 100 * time.Millisecond}
	for server, f := range map[string]form{"serve": serveForms(c)[0], "tool": toolForms(c)[0]} {
		s, err := measure(t.Context(), c, f, 2)
		if err != nil || s.rate <= 0 || s.p50 <= 0 || s.p99 < s.p50 || s.all < s.server {
			t.Errorf("%s: %v, %v", server, s, err)
		}
	}
}

// TestWrongAnswer checks that an answer that belongs to another call fails the measurement.
func TestWrongAnswer(t *testing.T) {
	f := form{open: func(_ context.Context, up *setup) error {
		up.call = func(context.Context, string, string, string) (string, error) { return "hello 7 of 7", nil }
		return nil
	}}
	_, err := measure(t.Context(), config{warm: time.Millisecond, lasts: time.Millisecond}, f, 1)
	if err == nil || !strings.Contains(err.Error(), `want "hello 0 of 0"`) {
		t.Errorf("the error is %v", err)
	}
}

// TestNotReady starts a program that ends before it is ready, and checks that the error has its output.
func TestNotReady(t *testing.T) {
	_, _, err := start(t.Context(), bareReady, "sh", "-c", "echo no port; exit 3")
	if err == nil || !strings.Contains(err.Error(), "it ended") || !strings.Contains(err.Error(), "no port") {
		t.Errorf("the error is %v", err)
	}
}

func TestUsed(t *testing.T) {
	const stat = "7 (a name) of) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0"
	if used, err := usedIn(stat); err != nil || used != 2*time.Second {
		t.Errorf("usedIn = %v, %v", used, err)
	}
	if _, err := usedIn("7 (short) S 1"); err == nil {
		t.Error("a short line is a state")
	}
}

func TestTable(t *testing.T) {
	us := time.Microsecond
	bare := []sample{{1000, 10 * us, 20 * us, 30 * us, 40 * us}, {500, 10 * us, 20 * us, 30 * us, 40 * us}}
	made := []sample{{600, 9 * us, 150 * us, 30 * us, 40 * us}, {250, 9 * us, 150 * us, 30 * us, 40 * us}}
	var rows table
	rows.add("tool", form{name: "bare"}, 64, bare, bare)
	rows.add("tool", form{name: "in memory", targets: map[int]float64{64: .7}}, 64, made, bare)
	const want = `| tool | 64 | bare | 1000 |  |  |  |  | 10.0 | 20.0 | 30.0 | 40.0 |
| tool | 64 | in memory | 600 | 0.60 | 0.50–0.60 | 0.70 | **missed** | 9.00 | 150 | 30.0 | 40.0 |
`
	if got := rows.rows.String(); got != want {
		t.Errorf("the rows are\n%s\nwant\n%s", got, want)
	}
}
