package mcptools

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// debounce is the pause after reading the list of tools, in which further changes are collected.
const debounce = 250 * time.Millisecond

// changed schedules a read of the list of tools, and returns a channel that is closed after it. Anew makes it try a
// server again that was given up.
func (m *member) changed(anew bool) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refresh, m.anew = true, m.anew || anew
	switch {
	case m.closed && m.asked == nil:
		over := make(chan struct{})
		close(over)
		m.asked = over
	case !m.refreshing && !m.closed:
		asked := make(chan struct{})
		m.refreshing, m.asked = true, asked
		m.tasks.Go(func() { m.relist(asked) })
	}
	return m.asked
}

// relist reads the list of tools until no further change is announced. It closes asked after the first read.
func (m *member) relist(asked chan<- struct{}) {
	for first := true; ; first = false {
		m.mu.Lock()
		if !m.refresh || m.closed {
			m.refreshing = false
			m.mu.Unlock()
			if first {
				close(asked)
			}
			return
		}
		anew := m.anew
		m.refresh, m.anew = false, false
		m.mu.Unlock()
		if l, err := m.read(anew); m.asksToSignIn(err) {
			m.log.Info("the tools of an MCP server are for users who have authorized access", "server", m.server.Name)
		} else if err != nil {
			m.mu.Lock()
			m.problems = []error{err}
			m.mu.Unlock()
			m.log.Warn("the tools of an MCP server are not known", "server", m.server.Name, "error", err)
		} else {
			m.adopt(l)
		}
		if first {
			close(asked)
		}
		t := time.NewTimer(debounce)
		select {
		case <-t.C:
		case <-m.ctx.Done():
			t.Stop()
		}
	}
}

// asksToSignIn reports whether the list of tools was refused for lack of a user's token, and if so offers the sign_in
// tool.
func (m *member) asksToSignIn(err error) bool {
	if _, ok := challengeIn(err); !ok {
		return false
	}
	m.mu.Lock()
	l := m.listed
	m.mu.Unlock()
	if l == nil || !l.SignIn {
		signing := listing{SignIn: true}
		if l != nil {
			signing.Tools, signing.Instructions, signing.Tasks = l.Tools, l.Instructions, l.Tasks
			signing.Resources, signing.Watch = l.Resources, l.Watch
		}
		m.adopt(&signing)
	}
	return true
}

// read requests the list of tools from the server.
func (m *member) read(anew bool) (*listing, error) {
	l := m.forLists()
	defer l.release()
	s, err := l.session(m.ctx, anew)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(m.ctx, connectTime)
	defer cancel()
	return list(ctx, s.cs, m.bounds)
}

// take makes the tool server offer the tools of a list.
func (m *member) take(l *listing) {
	names, tools, problems := m.server.offer(l)
	var made []toolserver.Tool
	digests := make(map[string]string, len(tools))
	for i, t := range tools {
		if err := l.pinned(&t); err != nil {
			problems = append(problems, err)
			continue
		}
		made = append(made, toolserver.Tool{
			Name: names[i], Description: t.text(), Schema: t.Schema,
			Options: toolserver.ToolOptions{Annotations: t.annotations(l.Tasks)}, Call: m.call(t),
		})
		digests[names[i]] = t.digest()
	}
	made = append(made, m.resourceTools(l, digests)...)
	if l.SignIn {
		name := m.server.prefix() + signInName
		if _, taken := digests[name]; !taken {
			made = append(made, toolserver.Tool{
				Name: name, Description: "Asks the user to authorize access to " + m.server.Name + ". The tools of " + m.server.Name + " are there afterwards.",
				Schema: []byte(`{"type":"object","additionalProperties":false}`), Call: m.signIn,
				Options: toolserver.ToolOptions{Annotations: agentproto.Annotations{Idempotent: true, LongRunning: true}},
			})
		}
	}
	if err := m.tools.Replace(made); err != nil {
		problems = append(problems, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logChanges(m.offered, digests)
	for _, p := range problems {
		m.log.Warn("a tool of an MCP server is not offered", "server", m.server.Name, "error", p)
	}
	m.offered, m.problems, m.listed = digests, problems, l
}

const listingFile = "tools.json"

// keep stores a list of tools for the next process.
func (m *member) keep(l *listing) {
	if m.folder == "" {
		return
	}
	m.mu.Lock()
	l.greeting = m.greeting
	m.mu.Unlock()
	data, err := json.Marshal(l)
	name := filepath.Join(m.folder, listingFile)
	if err == nil {
		err = os.WriteFile(name+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		m.log.Warn("the list of tools cannot be kept", "server", m.server.Name, "error", err)
	}
}

// recall returns the list that an earlier process has stored, or nil.
func (m *member) recall() *listing {
	if m.folder == "" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(m.folder, listingFile))
	l := new(listing)
	if err != nil || json.Unmarshal(data, l) != nil {
		return nil
	}
	return l
}
