package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/idp"
)

// A user has a browser, and a terminal that asks for the code that the last page shows.
type user struct {
	t        *testing.T
	rt       *host.Runtime
	provider *idp.Provider
	code     chan []string // the codes for the call whoami
}

func (u *user) OAuth(ctx context.Context, key agentproto.CallKey, o *agentproto.OAuth) {
	go func() {
		browser := u.provider.NewBrowser()
		visit := browser.Allow
		if key.ID == "denied" {
			visit = browser.Deny
		}
		page, err := visit(ctx, o.AuthURL, "ada", "lovelace")
		if denied := (*idp.PageError)(nil); err != nil && !(key.ID == "denied" && errors.As(err, &denied)) {
			u.t.Errorf("%s: %v", key.ID, err)
		}
		_, rest, _ := strings.Cut(page, "<strong>")
		code, _, _ := strings.Cut(rest, "</strong>")
		if key.ID == "whoami" {
			u.code <- strings.Fields(code)
		}
	}()
}

func (u *user) Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice) {
	go func() {
		pick := 1
		if key.ID != "order" {
			code := <-u.code
			if len(code) == 0 {
				u.t.Errorf("%s: no number is left", key.ID)
				return
			}
			pick = slices.Index(c.Choices, code[0])
			u.code <- code[1:]
		}
		if err := u.rt.Answer(ctx, key, c.ResponseURL, pick); err != nil {
			u.t.Errorf("%s: %v", key.ID, err)
		}
	}()
}

func (u *user) Withdraw(agentproto.CallKey, string)             {}
func (u *user) Progress(agentproto.CallKey, agentproto.State)   {}
func (u *user) View(agentproto.CallKey, *agentproto.ViewUpdate) {}

// TestAccount authorizes one call, denies another, and chooses in a third.
func TestAccount(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	up, done := make(chan string), make(chan error, 1)
	u := &user{t: t, code: make(chan []string, 4)}
	go func() {
		done <- serve(ctx, "127.0.0.1:0", func(url string, p *idp.Provider) {
			u.provider = p
			up <- url
		})
	}()
	var url string
	select {
	case url = <-up:
	case err := <-done:
		t.Fatal(err)
	}
	rt, err := host.Start(ctx, host.Options{Toolsets: []string{url}, Surface: u})
	if err != nil {
		t.Fatal(err)
	}
	u.rt = rt
	for _, test := range []struct{ id, operation, want string }{
		{"denied", "calendar", "Error: the user did not authorize the access"},
		{"whoami", "whoami", "ada (user-1815)"},
		{"order", "order", "coffee"},
	} {
		key, err := rt.Call(ctx, host.Request{GroupID: "t-" + test.id, ID: test.id, Operation: test.operation, UserID: "user of " + test.id})
		if err != nil {
			t.Fatal(err)
		}
		res, err := rt.Await(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if text := res.Result.String(); !strings.Contains(text, test.want) {
			t.Errorf("%s: %q, want %q", test.operation, text, test.want)
		}
	}
	if err := rt.Stop(ctx); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
}
