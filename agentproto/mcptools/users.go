package mcptools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// linkOf returns the link of a user, and counts a use of it: see [link.release]. If there are too many, one that nobody uses makes place, which may take
// as long as its program takes to end.
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

// tryLinkOf is linkOf that does not wait: it may return what has to be waited for.
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

// room makes place for one more user, or returns what has to be waited for. m.mu is held.
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
		return idle.leaving.ended, nil // there are never more programs than users may have
	}
	delete(m.users, idle.user)
	return nil, nil
}

// before reports whether a link makes place before another one: it has no program, or was not used for longer. m.mu is held.
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

// usersFolder has a folder for each user whose program was started, and workFolder is where a program works.
const usersFolder, workFolder = "users", "work"

// folderOf returns the name of a folder for a user. What a user is called is no name of a file.
func folderOf(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:16])
}

// forLists returns the link to read lists over, and counts a use of it: one with a connection, or else the one that all share. Where each user has a program it is
// the shared one, because nobody is shown what another user's program offers.
func (m *member) forLists() *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.anyLink()
	l.calls++
	return l
}

// anyLink is that link. m.mu is held.
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
