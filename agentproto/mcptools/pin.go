package mcptools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// digest identifies a version of a tool: its name, description, schemas and hints.
func (d *described) digest() string {
	data, _ := json.Marshal(d)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// pinsEach is how many tools are remembered for each tool that a server may have, so that one that disappears and returns is
// recognized.
const pinsEach = 8

// adopt pins, stores and offers a list of tools.
func (m *member) adopt(l *listing) {
	m.mu.Lock()
	before := m.listed
	m.mu.Unlock()
	l.SignIn = l.SignIn || before != nil && before.SignIn
	m.pin(l, before)
	m.keep(l)
	m.take(l)
}

// pin adds the new tools of a list to those seen before. Tools seen before keep their first digest.
func (m *member) pin(l, before *listing) {
	if !m.server.Pin {
		l.Pins = nil
		return
	}
	if before != nil {
		l.Pins = before.Pins
	}
	l.Pins = maps.Clone(l.Pins)
	if l.Pins == nil {
		l.Pins = make(map[string]string, len(l.Tools))
	}
	for _, t := range l.Tools {
		if _, seen := l.Pins[t.Name]; !seen && len(l.Pins) < pinsEach*m.bounds.Tools {
			l.Pins[t.Name] = t.digest()
		}
	}
}

// pinned returns an error if a tool is not the one that was first seen.
func (l *listing) pinned(t *described) error {
	was, seen := l.Pins[t.Name]
	switch now := t.digest(); {
	case l.Pins == nil || was == now:
		return nil
	case !seen:
		return fmt.Errorf("tool %q is not offered: too many tools have been seen", short(t.Name))
	default:
		return fmt.Errorf("tool %q is not offered: it has changed since it was first seen, from the digest %s to %s", short(t.Name), was, now)
	}
}

// logChanges logs how the digests of the offered tools differ from those before.
func (m *member) logChanges(before, now map[string]string) {
	if before == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch was, ok := before[name]; {
		case !ok:
			m.log.Info("an MCP server has a new tool", "server", m.server.Name, "tool", name, "now", now[name])
		case was != now[name]:
			m.log.Warn("a tool of an MCP server has changed", "server", m.server.Name, "tool", name, "before", was, "now", now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := now[name]; !ok {
			m.log.Info("an MCP server no longer has a tool", "server", m.server.Name, "tool", name, "before", before[name])
		}
	}
}
