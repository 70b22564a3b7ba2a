package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
)

// hosts holds two runtimes and the session that moves from the first to the second.
type hosts struct {
	folder string // contains everything that they keep
	hosts  [2]*process
	feeds  [2]*process  // the tool server of each host
	said   [2]io.Reader // output of each host

	history []follow.Message
	here    int  // number of messages at the first host
	whole   bool // whether the second host has the same messages
	moved   time.Duration
	refused int // status of the first host when the session is used there afterwards
	stats   [2]statsBody
}

func (h *hosts) remove() { os.RemoveAll(h.folder) }

const demoSession = "errands"

// move holds the conversation: at the first host until the model sleeps, and then at the
// second.
func (d *demoRun) move(ctx context.Context, h *hosts) error {
	a, b := h.hosts[0], h.hosts[1]
	if _, err := a.ask(ctx, http.MethodPost, "/sessions", sessionBody{ID: demoSession, UserID: "ada"}, nil, http.StatusCreated); err != nil {
		return err
	}
	if err := a.say(ctx, request); err != nil {
		return err
	}
	if err := a.choose(ctx, firstPick); err != nil {
		return err
	}
	if err := h.read(ctx, a, func(m *follow.Message) bool { return len(m.Calls) > 0 && m.Calls[0].Operation == "sleep" }); err != nil {
		return err
	}
	// Events wait while a call is pending, so these are all messages of the first host.
	before := h.history
	h.here, h.history = len(before), nil
	start := time.Now()
	if _, err := a.ask(ctx, http.MethodPost, "/sessions/"+demoSession+"/migrate", migrateBody{To: b.url}, nil, http.StatusNoContent); err != nil {
		return err
	}
	h.moved = time.Since(start)
	if err := b.choose(ctx, secondPick); err != nil {
		return err
	}
	final := false
	err := h.read(ctx, b, func(m *follow.Message) bool {
		if event, last := eventOf(m); event {
			final = final || last
		}
		return final && m.Kind == conversation.Assistant.String() && len(m.Calls) == 0
	})
	if err != nil {
		return err
	}
	h.whole = reflect.DeepEqual(before, h.history[:min(h.here, len(h.history))])
	if h.refused, err = a.ask(ctx, http.MethodPost, "/threads/"+demoSession+"/messages", said{"Are you still there?"}, nil, http.StatusGone, http.StatusAccepted); err != nil {
		return err
	}
	for i, x := range h.hosts {
		if _, err := x.ask(ctx, http.MethodGet, "/stats", nil, &h.stats[i], http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

type said struct {
	Text string `json:"text"`
}

func (x *process) say(ctx context.Context, text string) error {
	_, err := x.ask(ctx, http.MethodPost, "/threads/"+demoSession+"/messages", said{text}, nil, http.StatusAccepted)
	return err
}

// read reads the history at a host until it contains a certain message.
func (h *hosts) read(ctx context.Context, x *process, until func(*follow.Message) bool) error {
	for {
		var more []follow.Message
		path := fmt.Sprintf("/threads/%s/messages?from=%d&wait=5s", demoSession, len(h.history))
		if _, err := x.ask(ctx, http.MethodGet, path, nil, &more, http.StatusOK); err != nil {
			return err
		}
		found := false
		for i := range more {
			h.history = append(h.history, more[i])
			found = found || until(&more[i])
		}
		if found {
			return nil
		}
	}
}

// choose waits for a prompt, and answers it.
func (x *process) choose(ctx context.Context, pick int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var open []promptBody
		if _, err := x.ask(ctx, http.MethodGet, "/threads/"+demoSession+"/prompts", nil, &open, http.StatusOK); err != nil {
			return err
		}
		if len(open) > 0 {
			answer := struct {
				ID       string `json:"id"`
				Selected int    `json:"selected"`
			}{open[0].ID, pick}
			_, err := x.ask(ctx, http.MethodPost, "/threads/"+demoSession+"/answers", answer, nil, http.StatusNoContent)
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: the user was not asked anything: %w", x.name, context.Cause(ctx))
		}
	}
}

// ask makes a request to the API of a runtime. It returns the status, and an error if the
// status is not one of the good ones.
func (x *process) ask(ctx context.Context, method, path string, body, into any, good ...int) (int, error) {
	status, text, err := x.api.do(ctx, method, path, body)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", x.name, err)
	case !slices.Contains(good, status):
		return 0, fmt.Errorf("%s: %s %s was answered %d: %s", x.name, method, path, status, bytes.TrimSpace(text))
	case into == nil:
		return status, nil
	}
	return status, json.Unmarshal(text, into)
}
