package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

func (c *calls) Progressed(ctx context.Context, key agentproto.CallKey, after, said uint64) (host.Description, error) {
	return c.await(ctx, key, func(d *host.Description) bool {
		return d.Version > after || d.Progress != nil && d.Progress.Number != said
	})
}

// reports makes the tool of the only call report its progress.
func (c *calls) reports(done, total float64, message string) {
	c.with(func(d *host.Description) {
		number := uint64(1)
		if d.Progress != nil {
			number = d.Progress.Number + 1
		}
		d.Progress = &host.CallProgress{Progress: agentproto.Progress{Progress: done, Total: total, Message: message}, Number: number}
	})
}

// script makes a tool report progress, and returns what the client should receive: values that grow, whatever the tool reports.
func script(c *calls) (want string) {
	synctest.Wait()
	for _, p := range []agentproto.Progress{
		{Progress: 1, Total: 10, Message: "one"},
		{Progress: 5, Total: 10, Message: "five"},
		{Progress: 0, Total: 10, Message: "again"}, // the tool was restarted after a crash
		{Progress: 5.0005, Message: "less than was told"},
		{Progress: 10, Total: 10},
	} {
		c.reports(p.Progress, p.Total, p.Message)
		time.Sleep(time.Second)
	}
	time.Sleep(progressLater) // the tool reports nothing
	c.with(func(d *host.Description) { d.Progress = nil; resolve(d, agentproto.ByResult, "done") })
	return "1/10 one, 5/10 five, 5.001/10 again, 5.002/0 less than was told, 10/10 , 10.001/0 works"
}

// progressLater is a time after the first sign of life and before the second.
const progressLater = 20 * time.Second

// toldOf returns the text of the progress notifications in an answer.
func toldOf(t *testing.T, answer string) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(answer) {
		var m struct {
			Method string
			Params mcp.ProgressNotificationParams
		}
		line, _ = strings.CutPrefix(line, "data: ")
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == "notifications/progress" {
			if m.Params.ProgressToken != "p" {
				t.Errorf("the token is %v", m.Params.ProgressToken)
			}
			all = append(all, tellingOf(&m.Params))
		}
	}
	return strings.Join(all, ", ")
}

func tellingOf(p *mcp.ProgressNotificationParams) string {
	return fmt.Sprint(p.Progress, "/", p.Total, " ", p.Message)
}

const wantsProgress = `{"_meta":{"progressToken":"p"},"name":"one","arguments":{}}`

// TestProgress checks that a client of 2026-07-28 with a progress token receives the reports of the tool, with values that grow.
// A client without a token receives none.
func TestProgress(t *testing.T) {
	for _, params := range []string{wantsProgress, `{"name":"one","arguments":{}}`} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mcpserver.Options{})
			w.caps = noTasks
			got := make(chan reply)
			go func() { got <- w.say(t.Context(), "tools/call", params) }()
			want := script(w.calls)
			if params != wantsProgress {
				want = ""
			}
			r := <-got
			if told := toldOf(t, r.text); told != want {
				t.Errorf("told %q, want %q", told, want)
			}
			if r.Result["resultType"] != "complete" || strings.Index(r.text, "notifications/progress") > strings.Index(r.text, `"done"`) {
				t.Errorf("the result is %s", r.text)
			}
		})
	}
}

// TestProgressOfSession is TestProgress over sessions of older revisions.
func TestProgressOfSession(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mcpserver.Options{})
			in, toServer := io.Pipe()
			out, toClient := io.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- w.server.ServeStdio(t.Context(), mcpserver.Owner{Name: "alice"}, in, toClient) }()
			var told []string
			client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					told = append(told, tellingOf(r.Params))
				},
			})
			session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan error)
			go func() {
				p := &mcp.CallToolParams{Name: "one"}
				p.SetProgressToken("p")
				_, err := session.CallTool(t.Context(), p)
				got <- err
			}()
			want := script(w.calls)
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := strings.Join(told, ", "); got != want {
				t.Errorf("%s: told %q, want %q", version, got, want)
			}
			session.Close()
			<-ended
		})
	}
}

// TestProgressRate checks that a tool that reports often is relayed five times a second in the long run, and that its last report
// arrives.
func TestProgressRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{})
		w.caps = noTasks
		got := make(chan reply)
		go func() { got <- w.say(t.Context(), "tools/call", wantsProgress) }()
		synctest.Wait()
		const seconds, each = 10, 200
		for n := range seconds * each {
			w.calls.reports(float64(n), 0, "")
			time.Sleep(time.Second / each)
		}
		time.Sleep(time.Second)
		w.calls.with(func(d *host.Description) { resolve(d, agentproto.ByResult, "done") })
		told := strings.Split(toldOf(t, (<-got).text), ", ")
		if most := 2*5 + seconds*5 + 1; len(told) > most || len(told) < seconds*4 {
			t.Errorf("told %d times, want %d to %d", len(told), seconds*4, most)
		}
		if last := told[len(told)-1]; last != fmt.Sprint(seconds*each-1, "/0 ") {
			t.Errorf("told at last: %q", last)
		}
	})
}

// TestProgressOfExtremes checks that values stay finite numbers that grow, even next to the largest one.
func TestProgressOfExtremes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{})
		w.caps = noTasks
		got := make(chan reply)
		go func() { got <- w.say(t.Context(), "tools/call", wantsProgress) }()
		synctest.Wait()
		for _, value := range []float64{-1, 1 << 60, 1 << 60, math.MaxFloat64, math.MaxFloat64, 1} {
			w.calls.reports(value, -1, "")
			time.Sleep(time.Second)
		}
		w.calls.with(func(d *host.Description) { resolve(d, agentproto.ByResult, "done") })
		r := <-got
		if told, want := toldOf(t, r.text), "-1/0 , 1.152921504606847e+18/0 , 1.1529215046068472e+18/0 , 1.7976931348623157e+308/0 "; told != want {
			t.Errorf("told %q, want %q", told, want)
		}
		if r.Result["resultType"] != "complete" {
			t.Errorf("the result is %s", r.text)
		}
	})
}

// TestProgressOfTask checks that the status of a task states its progress, and that the client is notified while the task is
// made.
func TestProgressOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{Fast: 2 * time.Second})
		got := make(chan reply)
		go func() { got <- w.say(t.Context(), "tools/call", wantsProgress) }()
		synctest.Wait()
		w.calls.reports(1, 4, "")
		r := <-got
		id, _ := r.Result["taskId"].(string)
		if told := toldOf(t, r.text); told != "1/4 " || id == "" || r.Result["statusMessage"] != "1 of 4" {
			t.Errorf("told %q and %s", told, r.text)
		}
		w.calls.reports(2, 4, strings.Repeat("long ", 100)+"\u202e")
		said, _ := w.get(id).Result["statusMessage"].(string)
		if !strings.HasPrefix(said, "long long") || len(said) > 210 {
			t.Errorf("the status is %q", said)
		}
		w.calls.with(func(d *host.Description) { d.Progress = nil; resolve(d, agentproto.ByResult, "done") })
		if said := w.get(id).Result["statusMessage"]; said != nil {
			t.Errorf("the status of a task that is over is %q", said)
		}
	})
}
