package capability

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace/millrace/agentproto"
)

// ErrBadID is wrapped by the errors of [CheckID].
var ErrBadID = errors.New("host: bad identifier")

// CheckID returns an error for an invalid identifier. Identifiers become parts of URLs, logs and other programs' databases.
func CheckID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("host: %s is empty: %w", what, ErrBadID)
	case len(id) > agentproto.MaxID:
		return fmt.Errorf("host: %s has %d bytes, at most %d: %w", what, len(id), agentproto.MaxID, ErrBadID)
	case !utf8.ValidString(id):
		return fmt.Errorf("host: %s is not UTF-8: %w", what, ErrBadID)
	case strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("host: %s contains a control character: %w", what, ErrBadID)
	}
	return nil
}
