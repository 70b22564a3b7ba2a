package agentchaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// A load makes calls and reads their outcomes.
type load struct {
	ledger *ledger
	client *http.Client
	apis   []string // of the runtimes
	tools  []string // names of the tool servers
	shared bool     // every runtime knows every call
}

// request repeats a request until it succeeds or ctx ends.
func (l *load) request(ctx context.Context, method string, api func() string, path string, body any, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		if err = l.try(ctx, method, api()+path, text, into); err == nil {
			return nil
		}
		if !pass(ctx, 50*time.Millisecond) {
			return err
		}
	}
}

func (l *load) try(ctx context.Context, method, url string, body []byte, into any) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusAccepted:
		return nil
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	return json.Unmarshal(text, into)
}

// operations are the calls of a member, with their percentages.
var operations = []struct {
	name  string
	often int
}{{"work", 55}, {"thrice", 12}, {"choose", 12}, {"fail", 8}, {"private", 5}, {"mute", 3}, {"cancelled", 5}}

func draw(r *rand.Rand) string {
	at := r.IntN(100)
	for _, o := range operations {
		if at -= o.often; at < 0 {
			return o.name
		}
	}
	return "work"
}

// at returns a function that picks the runtime to ask about what runtime i has accepted.
func (l *load) at(i int, r *rand.Rand) func() string {
	if !l.shared {
		return func() string { return l.apis[i] }
	}
	return func() string { return l.apis[r.IntN(len(l.apis))] }
}

// call is a member that makes one call after another until making ends. It reads each
// result until ctx ends.
func (l *load) call(making, ctx context.Context, member int, r *rand.Rand) error {
	home := l.at(member%len(l.apis), r)
	for i := 0; making.Err() == nil; i++ {
		o := order{
			Thread: fmt.Sprintf("t%d-%d", member, i/20), ID: fmt.Sprintf("c%d-%d", member, i),
			User: fmt.Sprintf("user-%d-%d", member, i/60), Lifetime: 15 * time.Minute,
		}
		key, op, ms := agentproto.CallKey{GroupID: o.Thread, ID: o.ID}, draw(r), r.IntN(80)
		tool := op
		switch op {
		case "cancelled":
			tool, ms = "work", 200
		case "mute":
			o.Lifetime = 1500 * time.Millisecond
		}
		o.Operation = l.tools[r.IntN(len(l.tools))] + "-" + tool
		o.Arguments = json.RawMessage(fmt.Sprintf(`{"ms":%d}`, ms))
		l.ledger.on(key, func(e *entry) { e.operation = tool })
		if err := l.request(making, http.MethodPost, home, "/calls", o, nil); err != nil {
			break // it is unknown whether it was accepted
		}
		l.ledger.on(key, func(e *entry) { e.accepted, e.cancelled = true, op == "cancelled" })
		path := "/calls/" + o.Thread + "/" + o.ID
		if op == "cancelled" {
			if err := l.request(ctx, http.MethodDelete, home, path, nil, nil); err != nil {
				return fmt.Errorf("%v cannot be cancelled: %w", key, err)
			}
		}
		var out outcome
		if err := l.request(ctx, http.MethodGet, home, path, nil, &out); err != nil {
			return fmt.Errorf("%v (%s) has no result: %w", key, o.Operation, err)
		}
		l.ledger.tell(key, out)
	}
	return nil
}

// converse is a member that opens one thread after another until making ends. In each it
// sends one text, which makes the model start several calls at once, and waits until the
// history is complete.
func (l *load) converse(making, ctx context.Context, member int, r *rand.Rand) error {
	at := member % len(l.apis)
	home := l.at(at, r)
	for i := 0; making.Err() == nil; i++ {
		thread := fmt.Sprintf("s%d-%d", member, i)
		plan := &agenda{api: l.apis[at]}
		for n, op := range []string{"work", "count", draw(r), "count", "choose"} {
			if op == "cancelled" || op == "mute" || op == "private" {
				op = "thrice"
			}
			id := fmt.Sprintf("%s-%d", thread, n)
			plan.calls = append(plan.calls, conversation.Call{
				ID: id, Name: l.tools[r.IntN(len(l.tools))] + "-" + op, Arguments: fmt.Sprintf(`{"ms":%d}`, 5+r.IntN(40)),
			})
			l.ledger.on(agentproto.CallKey{GroupID: thread, ID: id}, func(e *entry) { e.operation = op })
		}
		l.ledger.mu.Lock()
		l.ledger.threads[thread] = plan
		l.ledger.mu.Unlock()
		if l.request(making, http.MethodPut, home, "/threads/"+thread, nil, nil) != nil ||
			!l.say(making, home, thread, plan) {
			break // it is unknown whether it was accepted
		}
		l.ledger.mu.Lock()
		plan.said = true
		for _, c := range plan.calls {
			l.ledger.entry(agentproto.CallKey{GroupID: thread, ID: c.ID}).accepted = true
		}
		l.ledger.mu.Unlock()
		if err := l.finish(ctx, home, thread); err != nil {
			return err
		}
	}
	return nil
}

// say sends the text of a thread, once if it can find out that it was accepted: sending it
// again would interrupt its calls.
func (l *load) say(ctx context.Context, home func() string, thread string, plan *agenda) bool {
	text, err := json.Marshal(plan.calls)
	if err != nil {
		return false
	}
	for ctx.Err() == nil {
		if l.try(ctx, http.MethodPost, home()+"/threads/"+thread, text, nil) == nil {
			return true
		}
		// The text may have been stored and only the answer lost. A stored text is in the
		// history soon after the runtime is back.
		for range 10 {
			var history []conversation.Message
			if l.request(ctx, http.MethodGet, home, "/threads/"+thread, nil, &history) != nil {
				return false
			}
			if len(history) > 1 {
				return true
			}
			pass(ctx, 100*time.Millisecond)
		}
	}
	return false
}

// finish waits until the history of a thread is complete.
func (l *load) finish(ctx context.Context, home func() string, thread string) error {
	for {
		var history []conversation.Message
		if err := l.request(ctx, http.MethodGet, home, "/threads/"+thread, nil, &history); err != nil {
			return fmt.Errorf("%s: %w", thread, err)
		}
		missing := l.ledger.read(thread, history)
		if missing == "" {
			return nil
		}
		if !pass(ctx, 200*time.Millisecond) {
			var lines []string
			for _, m := range history {
				lines = append(lines, fmt.Sprintf("%v %q %v", m.Kind, m.Text, m.Calls))
			}
			return fmt.Errorf("%s: missing: %s; history:\n%s", thread, missing, strings.Join(lines, "\n"))
		}
	}
}
