package mcptools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// linkOf returns the link of a user, and counts a use of it: see [link.release]. If there are too many links, an unused one is
// removed, which may take as long as its program takes to end.
func (m *member) linkOf(ctx context.Context, user string) (*link, error) {
	for {
		l, wait, err := m.tryLinkOf(user)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryLinkOf is like linkOf but does not wait: it may return a channel to wait for.
func (m *member) tryLinkOf(user string) (l *link, wait <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l = m.users[user]; l == nil {
		if wait, err = m.room(); wait != nil || err != nil {
			return nil, wait, err
		}
		l = m.newLink(user)
		m.users[user] = l
	}
	l.calls++
	return l, nil, nil
}

// room makes room for one more user, or returns a channel to wait for. m.mu is held.
func (m *member) room() (wait <-chan struct{}, err error) {
	if len(m.users) < m.server.maxUsers() {
		return nil, nil
	}
	var idle *link
	for _, l := range m.users {
		if l.calls == 0 && l.connecting == nil && (idle == nil || l.before(idle)) {
			idle = l
		}
	}
	if idle == nil {
		return nil, fmt.Errorf("%s is used by too many users at once, %d; the call was not sent", m.server.Name, len(m.users))
	}
	if idle.live != nil {
		idle.retire("another user needs one")
	}
	if m.outside == nil && idle.ending() {
		return idle.leaving.ended, nil // there are never more programs than allowed users
	}
	delete(m.users, idle.user)
	return nil, nil
}

// before reports whether a link is removed before another one: it has no program, or was unused for longer. m.mu is held.
func (l *link) before(other *link) bool {
	runs, others := l.live != nil, other.live != nil
	if runs != others {
		return others
	}
	return l.lastUse.Before(other.lastUse)
}

func (m *member) newLink(user string) *link {
	l := &link{m: m, user: user, folder: m.folder, dir: m.dir}
	if m.outside != nil {
		l.http = m.outside.client(l)
	} else if user != "" {
		l.folder = filepath.Join(m.folder, usersFolder, folderOf(user))
		l.dir = filepath.Join(l.folder, workFolder)
	}
	return l
}

// usersFolder contains a folder for each user whose program was started, and workFolder is the working directory of a program.
const usersFolder, workFolder = "users", "work"

// folderOf returns the name of the folder for a user. A user's name may not be valid as a file name.
func folderOf(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:16])
}

// forLists returns the link for reading lists, and counts a use of it: any link with a connection, or else the shared one. With
// PerUser it is always the shared one, because nobody may see what another user's program offers.
func (m *member) forLists() *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.anyLink()
	l.calls++
	return l
}

// anyLink returns the link of forLists without counting a use. m.mu is held.
func (m *member) anyLink() *link {
	if m.shared.live == nil && !m.server.PerUser {
		for _, l := range m.users {
			if l.live != nil {
				return l
			}
		}
	}
	return m.shared
}
