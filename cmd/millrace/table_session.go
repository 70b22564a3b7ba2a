package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/internal/plain"
)

// sessionTotals are the figures of the conversation.
type sessionTotals struct {
	Calls     int    `json:"calls"`
	Results   int    `json:"results"`
	Expected  int    `json:"expected"` // messages and events as expected
	Messages  int    `json:"messages"`
	Events    int    `json:"events"`
	Forwarded uint64 `json:"forwarded"` // callbacks that arrived later at the old address
	Moved     bool   `json:"moved"`
}

func (t sessionTotals) good() bool {
	return t.Moved && t.Results == t.Calls && t.Calls == len(answers) && t.Expected == t.Messages && t.Events == demoTicks && t.Forwarded > 1
}

// A line is a line of the conversation in the table.
type line struct {
	host      string
	who, text string
	what      string
	event     bool
	good      bool
}

// eventOf reports whether a message is the call that announces an event, and whether the
// event is the last of its subscription.
func eventOf(m *follow.Message) (event, final bool) {
	if len(m.Calls) == 0 || m.Calls[0].Operation != conversation.EventTool {
		return false, false
	}
	var about struct{ Final bool }
	return json.Unmarshal(m.Calls[0].Arguments, &about) == nil, about.Final
}

// lines reads the history. It compares each line with the expected one: the request, the
// replies, the results and the events, each kind in its own order.
func (h *hosts) lines() (all []line, t sessionTotals) {
	called := map[string]string{} // the tool of each call
	final := map[string]bool{}    // announced events
	next := map[string]int{}      // number of lines of each kind so far
	for i := range h.history {
		m := &h.history[i]
		l := line{host: "A", who: m.Kind, text: m.Text}
		if i >= h.here {
			l.host = "B"
		}
		n := next[m.Kind]
		switch m.Kind {
		case conversation.Opened.String():
			continue
		case conversation.User.String():
			l.good = n == 0 && m.Text == request
		case conversation.Assistant.String():
			if event, last := eventOf(m); event {
				if i+1 < len(h.history) && h.history[i+1].ID == m.Calls[0].ID {
					final[m.Calls[0].ID] = last
					continue // the result says it
				}
			}
			l.who = "model"
			var tools []string
			for _, c := range m.Calls {
				called[c.ID] = c.Operation
				tools = append(tools, c.Operation)
				t.Calls++
			}
			if l.good = n < len(dialogue) && m.Text == dialogue[n].Text && len(tools) == len(dialogue[n].Calls); l.good {
				for i, c := range dialogue[n].Calls {
					l.good = l.good && tools[i] == c.Name
				}
			}
			if tools != nil {
				l.text += " → " + strings.Join(tools, ", ")
			}
		case conversation.Result.String():
			for _, c := range m.Content {
				l.text += c.String()
			}
			if last, event := final[m.ID]; event {
				n = next["event"]
				next["event"]++
				t.Events++
				l.who, l.event = "tick", true
				l.good = l.text == fmt.Sprint("tick ", n+1) && last == (n+1 == demoTicks)
				break
			}
			next[m.Kind]++
			t.Results++
			l.who = called[m.ID]
			if l.good = n < len(answers) && l.who == answers[n].tool && l.text == answers[n].text; l.good {
				l.what = answers[n].what
			}
			delete(called, m.ID)
		}
		if m.Kind != conversation.Result.String() {
			next[m.Kind]++
		}
		if len(all) == 0 && m.Kind != conversation.User.String() {
			l.good = false // nothing asked for it
		}
		if t.Messages++; l.good {
			t.Expected++
		}
		all = append(all, l)
	}
	return all, t
}

// table prints the conversation, and returns its totals.
func (h *hosts) table(d *demoRun) sessionTotals {
	all, t := h.lines()
	t.Forwarded = h.stats[0].Forwarded
	t.Moved = h.whole && h.refused == http.StatusGone && h.stats[1].Results > 0
	fmt.Fprintf(d.out, "%s\n\n", d.style.bold("One conversation on two hosts: it moves in the middle, and nothing is lost or told twice."))
	for i, x := range h.hosts {
		fmt.Fprintf(d.out, "  %s  runtime %s, tool server feed %s  (processes %d, %d)\n", x.name, x.url, h.feeds[i].url, x.cmd.Process.Pid, h.feeds[i].cmd.Process.Pid)
	}
	fmt.Fprintln(d.out)
	rows := [][]string{}
	var wrong []string
	host := "A"
	for _, l := range together(all) {
		mark, name := "✓", ""
		if !l.good {
			mark = "✗"
			wrong = append(wrong, fmt.Sprintf("%s said %q, which was not to be expected", l.who, l.text))
		}
		if len(rows) == 0 {
			name = l.host
		}
		if l.host != host {
			rows = append(rows, []string{fmt.Sprintf("── the session moves from A to B, in %s %s", took(h.moved), strings.Repeat("─", 60))})
			host, name = l.host, l.host
		}
		rows = append(rows, []string{mark, name, l.who, clip(l.text, 50), l.what})
	}
	d.rows([]string{"", "host", "who", "what was said", "what happened"}, rows)
	fmt.Fprintf(d.out, "\n  %d calls, %d results, %d events, %d of %d messages as expected; after the move, %d callbacks came to A and were handed on\n",
		t.Calls, t.Results, t.Events, t.Expected, t.Messages, t.Forwarded)
	switch {
	case !t.Moved:
		wrong = append(wrong, "the second host has not all of the session, or the first one has it still")
	case !t.good() && len(wrong) == 0:
		wrong = append(wrong, fmt.Sprintf("%d calls, %d events and more than one callback that is handed on were expected", len(answers), demoTicks))
	}
	for _, w := range wrong {
		fmt.Fprintf(d.out, "  %s\n", d.style.bad("✗ "+plain.Line(w)))
	}
	fmt.Fprintln(d.out)
	return t
}

// together joins consecutive expected events, and the model's notes about them, to one
// line.
func together(all []line) (out []line) {
	first, n := "", 0
	for _, l := range all {
		last := len(out) - 1
		switch {
		case l.good && l.text == noted && last >= 0 && out[last].event:
			continue
		case l.good && l.event && last >= 0 && out[last].event && out[last].good && out[last].host == l.host:
			n++
			l.text, l.what = first+" … "+l.text, fmt.Sprintf("%d events of the subscription", n)
			out[last] = l
			continue
		case l.event:
			first, n = l.text, 1
			l.what = "an event of the subscription"
		}
		out = append(out, l)
	}
	return out
}
