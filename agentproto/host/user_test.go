package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
)

// A user is a surface that records what it is asked.
type user struct {
	mu   sync.Mutex
	seen []string
}

func (u *user) note(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, fmt.Sprintf(format, args...))
}

func (u *user) OAuth(_ context.Context, key agentproto.CallKey, o *agentproto.OAuth) {
	u.note("oauth %v %s", key, o.AuthURL)
}

func (u *user) Choice(_ context.Context, key agentproto.CallKey, c *agentproto.UserChoice) {
	u.note("choice %v %s", key, c.Prompt)
}

func (u *user) Withdraw(key agentproto.CallKey, detour string) { u.note("withdraw %v %s", key, detour) }

func (u *user) Progress(key agentproto.CallKey, s agentproto.State) { u.note("progress %v %v", key, s) }

func (u *user) View(key agentproto.CallKey, v *agentproto.ViewUpdate) {
	u.note("view %v %s %s", key, v.ViewType, v.Content)
}

// saw returns what the user was shown, without progress.
func (u *user) saw() []string {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	var asked []string
	for _, s := range u.seen {
		if !strings.HasPrefix(s, "progress ") {
			asked = append(asked, s)
		}
	}
	return asked
}

// progress returns the states that were reported to the user.
func (u *user) progress() (states []string) {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.seen {
		if rest, ok := strings.CutPrefix(s, "progress "); ok {
			states = append(states, rest)
		}
	}
	return states
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
