package undertest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// notes are texts that sessions store, and that move with them.
type notes struct {
	mu       sync.Mutex
	sessions map[string]map[string]string
}

// session returns the root thread of a call.
func session(ctx context.Context) string {
	inv := toolserver.Invocation(ctx)
	if len(inv.ThreadAncestors) > 0 {
		return inv.ThreadAncestors[0]
	}
	return inv.GroupID
}

func (n *notes) remember(ctx context.Context, in noted) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := session(ctx)
	if n.sessions[id] == nil {
		n.sessions[id] = make(map[string]string)
	}
	n.sessions[id][in.Name] = in.Text
	return "kept", nil
}

func (n *notes) recall(ctx context.Context, in named) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text, ok := n.sessions[session(ctx)][in.Name]
	if !ok {
		return "", errors.New("there is no such note")
	}
	return text, nil
}

// Export returns the notes of a session.
func (n *notes) Export(_ context.Context, id string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sessions[id] == nil {
		return nil, nil
	}
	return json.Marshal(n.sessions[id])
}

// Import replaces the notes of a session.
func (n *notes) Import(_ context.Context, id string, state []byte) error {
	var all map[string]string
	if err := json.Unmarshal(state, &all); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sessions[id] = maps.Clone(all)
	return nil
}

// Remove forgets a session.
func (n *notes) Remove(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.sessions, id)
	return nil
}
