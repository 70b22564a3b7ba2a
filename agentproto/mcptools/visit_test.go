package mcptools_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// TestMB14_URLElicitation has a server send users to an address in each of the three ways of MCP. The test fails if a user is not
// asked or is asked twice, if the call does not continue afterwards, or if an address without TLS is shown.
func TestMB14_URLElicitation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, how, plain, want string }{
		{"newest", "rounds", "not booked: decline", "booked order-17"}, {"legacy", "error", "Error: users are not sent to the page that p names; the call was not carried out", "booked "},
		{"legacy", "request", "not booked: decline", "booked "},
	} {
		t.Run(c.how, func(t *testing.T) {
			logged := new(journal)
			d := newDesk(t, func(o *mcptools.Options) {
				o.Servers[0].Env["MODE"] = c.mode
				o.Logger = slog.New(slog.NewTextHandler(logged, nil))
			})
			args := func(scheme string) string {
				return fmt.Sprintf(`{"url":"%s://pay.example/17?secret=canary","how":%q}`, scheme, c.how)
			}
			d.call("t", "plain", "visit", args("http"))
			d.want("an address without TLS", c.plain)
			if text := logged.String(); !strings.Contains(text, "has named an address that users are not sent to") {
				t.Errorf("that is not in the log: %s", text)
			}
			d.call("t", "one", "visit", args("https"))
			if o, ok := d.next().(*agentproto.OAuth); !ok || o.AuthURL != "https://pay.example/17?secret=canary" {
				t.Errorf("%+v does not ask the user", o)
			}
			if err := note(d.notes, "opened"); err != nil {
				t.Fatal(err)
			}
			if c.how == "error" {
				if o, ok := d.next().(*agentproto.OAuth); !ok || o.AuthURL != "https://pay.example/17?secret=canary&n=2" {
					t.Errorf("%+v does not ask for the second address", o)
				}
				if err := note(d.notes, "opened both"); err != nil {
					t.Fatal(err)
				}
			}
			d.want("the call, with nothing asked before", c.want)
			if n := d.noted("booked"); n != 1 {
				t.Errorf("it was carried out %d times", n)
			}
			if text := logged.String(); strings.Contains(text, "canary") {
				t.Errorf("the address is in the log: %s", text)
			}
		})
	}
}

// TestMB14_Killed kills the process while the user is at an address, and lets the user finish in the next process. It also kills
// the process after the call was sent again with the server's state but before the answer. The test fails if that state is lost,
// or if the call starts over or is carried out twice.
func TestMB14_Killed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ how, want string }{
		{"rounds", "booked order-17"}, {"hangs", "It may have been carried out; it was not repeated."},
	} {
		t.Run(c.how, func(t *testing.T) {
			for !killedAtVisit(t, c.how, c.want) {
				t.Log("killed too late; once more")
			}
		})
	}
}

// killedAtVisit is one try of TestMB14_Killed. It returns false if a call with rounds had been sent again before the kill, as it
// is after two seconds: then nobody knows whether it was carried out.
func killedAtVisit(t *testing.T, how, want string) bool {
	folder := t.TempDir()
	d := &desk{t: t, notes: filepath.Join(folder, "counts")}
	results := func() string {
		data, _ := os.ReadFile(filepath.Join(folder, "results"))
		return string(data)
	}
	m := newMortal(t, folder, "")
	began := time.Now()
	m.invoke(invocation("t", "one", "visit", fmt.Sprintf(`{"url":"https://pay.example/17","how":%q}`, how)))
	d.until("the user is asked", func() bool { return strings.Contains(results(), `"auth_url":"https://pay.example/17"`) })
	if how == "hangs" {
		d.until("it is carried out", func() bool { return d.noted("booked") > 0 })
	}
	m.kill()
	took, again := time.Since(began), d.noted(`visit "order-17"`)
	m = newMortal(t, folder, "")
	if how == "rounds" {
		d.until("the server is asked by the next process, or not", func() bool {
			return d.noted(`visit "order-17"`) > again || strings.Contains(results(), `"type":"tool_result"`)
		})
		if err := note(d.notes, "opened"); err != nil {
			t.Fatal(err)
		}
	}
	d.until("there is a result", func() bool { return strings.Contains(results(), `"type":"tool_result"`) })
	m.end()
	late := how == "rounds" && took > 2*time.Second && strings.Contains(results(), "It may have been carried out; it was not repeated.")
	if late {
		want = ""
	}
	if text := results(); !strings.Contains(text, want) {
		t.Error(text)
	}
	if begun, booked := d.noted(`visit ""`), d.noted("booked"); begun != 1 || booked != 1 && !late {
		t.Errorf("the call was begun %d times and carried out %d times", begun, booked)
	}
	return !late
}

// TestRoundsAfterKill kills the process while a server asks the same question again. The test fails if the first answer is used
// for the second question, or if questions are repeated.
func TestRoundsAfterKill(t *testing.T) {
	folder := t.TempDir()
	d := &desk{t: t, notes: filepath.Join(folder, "counts")}
	questions := func() (all []string) {
		data, _ := os.ReadFile(filepath.Join(folder, "results"))
		for line := range strings.Lines(string(data)) {
			var q struct {
				Type string
				URL  string `json:"response_url"`
			}
			if json.Unmarshal([]byte(line), &q) == nil && q.Type == agentproto.TypeUserChoice && !slices.Contains(all, q.URL) {
				all = append(all, q.URL)
			}
		}
		return all
	}
	m := newMortal(t, folder, "")
	m.invoke(invocation("t", "one", "twice", "{}"))
	d.until("the first question", func() bool { return len(questions()) == 1 })
	m.invoke(questions()[0] + ` {"id":"one","selected":1}`)
	d.until("the second question", func() bool { return len(questions()) == 2 })
	m.kill()
	m = newMortal(t, folder, "")
	m.invoke(questions()[1] + ` {"id":"one","selected":2}`)
	d.until("it is carried out", func() bool { return d.noted("twice") > 0 })
	m.end()
	data, err := os.ReadFile(filepath.Join(folder, "results"))
	if text := string(data); err != nil || !strings.Contains(text, `"text":"ml"`) || len(questions()) != 2 || d.noted("twice") != 1 {
		t.Errorf("%v: %s", err, text)
	}
}

// TestOutputSchema calls a tool whose results match its output schema, and one whose results do not. The mismatch is logged, and
// the result is delivered all the same.
func TestOutputSchema(t *testing.T) {
	logged := new(journal)
	d := newDesk(t, func(o *mcptools.Options) { o.Logger = slog.New(slog.NewTextHandler(logged, nil)) })
	const said = "does not match the schema of results"
	d.call("t", "one", "kept", "{}")
	d.want("as promised", `{"n":1}`)
	if text := logged.String(); strings.Contains(text, said) {
		t.Error(text)
	}
	d.call("t", "two", "broken", "{}")
	d.want("otherwise", `{"n":"one"}`)
	if text := logged.String(); !strings.Contains(text, said) || !strings.Contains(text, "tool=broken") {
		t.Errorf("it is not in the log: %s", text)
	}
	ofTasks := new(journal)
	d, _ = newTaskDesk(t, "plain", func(o *mcptools.Options) { o.Logger = slog.New(slog.NewTextHandler(ofTasks, nil)) })
	d.call("t", "three", "work", `{"N":1}`)
	d.want("of a task", "counted 1 []")
	if text := ofTasks.String(); !strings.Contains(text, said) || !strings.Contains(text, "tool=work") {
		t.Errorf("it is not in the log of a task: %s", text)
	}
}

// A journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
