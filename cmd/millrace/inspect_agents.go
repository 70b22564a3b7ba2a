package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The pages of a runtime of agents in a terminal: the JSON of package agentinspect as
// text.

// agentViews print what agents do, by the word that asks for it.
var agentViews = map[string]struct {
	path string
	row  func(t *report, at time.Time, line []byte) error
	head []any
	list string // the field with the lines
}{
	"servers": {"status", serverRow, []any{"server", "name", "state", "tools", "posting", "may", "calls", "results", "failures"}, "servers"},
	"threads": {"threads", threadRow, []any{"thread", "user", "state", "messages", "pending", "authorizing", "subscriptions", "children"}, "threads"},
	"calls":   {"calls?state=open", callRow, []any{"thread", "call", "tool", "state", "made", "server"}, "calls"},
	"prompts": {"prompts", promptRow, []any{"thread", "call", "tool", "since", "asks"}, "prompts"},
}

// mostAgents limits the lines for calls and threads.
const mostAgents = 1000

// showAgents prints the view of a word, page by page.
func (i *inspection) showAgents(ctx context.Context) error {
	view := agentViews[i.view]
	t := newReport(nil, nil, nil)
	t.row(view.head...)
	from, lines := "", []json.RawMessage{}
	for {
		path := "/agents/v1/" + view.path
		if from != "" {
			path += map[bool]string{false: "?", true: "&"}[strings.Contains(path, "?")] + "from=" + url.QueryEscape(from)
		}
		page := make(map[string]json.RawMessage)
		if _, err := i.get(ctx, path, &page, http.StatusOK); err != nil {
			return err
		}
		var at time.Time
		var some []json.RawMessage
		if err := json.Unmarshal(page["at"], &at); err != nil {
			return err
		}
		if err := json.Unmarshal(page[view.list], &some); err != nil {
			return err
		}
		for _, line := range some {
			if err := view.row(t, at, line); err != nil {
				return err
			}
		}
		lines = append(lines, some...)
		from = ""
		if next := page["next"]; next != nil {
			if err := json.Unmarshal(next, &from); err != nil {
				return err
			}
		}
		if from == "" || len(lines) >= mostAgents {
			break
		}
	}
	if i.json {
		return i.printJSON(lines)
	}
	if from != "" {
		t.line("\nThere are more: see the page.")
	}
	return t.flush(stdout)
}

// since says how long before at the time t was.
func since(at, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return at.Sub(t).Round(time.Second).String() + " ago"
}

func serverRow(t *report, _ time.Time, line []byte) error {
	var s struct {
		URL, Name, State, Failure, Note string
		Tools                           []struct{}
		InFlight                        int `json:"in_flight"`
		Slots                           int
		Counts                          struct{ Calls, Results, Failures uint64 }
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	state := s.State
	if s.Failure != "" {
		state += ": " + s.Failure
	}
	if s.Note != "" {
		state += ", " + s.Note
	}
	t.row(s.URL, cmp.Or(s.Name, "-"), state, len(s.Tools), s.InFlight, s.Slots, s.Counts.Calls, s.Counts.Results, s.Counts.Failures)
	return nil
}

func threadRow(t *report, _ time.Time, line []byte) error {
	var s struct {
		ID, State                                               string
		UserID                                                  string `json:"user_id"`
		Messages, Pending, Authorizing, Subscriptions, Children int
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	t.row(s.ID, cmp.Or(s.UserID, "-"), s.State, s.Messages, s.Pending, s.Authorizing, s.Subscriptions, s.Children)
	return nil
}

func callRow(t *report, at time.Time, line []byte) error {
	var c struct {
		Thread, ID, Operation, State, Toolset string
		Made                                  time.Time
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	t.row(c.Thread, c.ID, cmp.Or(c.Operation, "-"), c.State, since(at, c.Made), cmp.Or(c.Toolset, "-"))
	return nil
}

func promptRow(t *report, at time.Time, line []byte) error {
	var p struct {
		Thread, ID, Operation, Prompt string
		AuthURL                       string `json:"auth_url"`
		Choices                       []string
		Since                         time.Time
	}
	if err := json.Unmarshal(line, &p); err != nil {
		return err
	}
	asks := p.Prompt
	for i, c := range p.Choices {
		asks += " [" + strconv.Itoa(i) + "] " + c
	}
	t.row(p.Thread, p.ID, cmp.Or(p.Operation, "-"), since(at, p.Since), cmp.Or(p.AuthURL, asks))
	return nil
}
