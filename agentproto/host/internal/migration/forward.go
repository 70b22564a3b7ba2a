package migration

import (
	"context"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/callback"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

// IsFrozen reports whether callbacks of a thread have to wait.
func (mg *Migrator) IsFrozen(thread string) bool { return mg.ports != nil && mg.isFrozen(thread) }

// HostOf returns the host that a thread has moved to, or "" if it is here.
func (mg *Migrator) HostOf(thread string) string {
	if mg.ports == nil {
		return ""
	}
	host, _ := mg.ports.placeOf(thread)
	return host
}

// ToolsetOf returns the name of the toolset of a tool server of a thread that has moved, as far as it is known: the tool server may be
// gone since.
func (mg *Migrator) ToolsetOf(ctx context.Context, thread string, s *peer.Server) string {
	if set := mg.Catalog.Last(s); set != nil {
		return set.Manifest.Name
	}
	if name, _ := mg.ports.toolsetOf(agentproto.SessionOf(thread), s.Name()); name != "" {
		return name
	}
	if set := mg.Catalog.Known(ctx, s); set != nil {
		return set.Manifest.Name
	}
	return ""
}

// Forward passes a callback to the host of its thread.
func (mg *Migrator) Forward(ctx context.Context, host string, f *callback.Forwarded) (*callback.Answer, error) {
	reply, err := mg.tellHost(ctx, host, &migrationMessage{Forward: f})
	if err != nil {
		return nil, err
	}
	return reply.Answer, nil
}
