package toolserver

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// A Secret is a text that does not print itself: formatting, encoding or logging it gives
// "[redacted]", even if it is a field of another value. The zero Secret is empty.
type Secret struct {
	// A pointer, because fmt follows the string of an unexported field and does not
	// follow a pointer.
	text *string
}

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text. The caller is responsible for where the text goes.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether the secret holds no text.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// String returns "[redacted]".
func (s Secret) String() string { return redacted }

// GoString returns "[redacted]".
func (s Secret) GoString() string { return redacted }

// Format writes "[redacted]", whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, redacted) }

// MarshalJSON returns "[redacted]" as a JSON string, so a [Vault] that keeps
// secrets has to call [Secret.Reveal].
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText returns "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText sets the secret, so that it can be read from a configuration.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// LogValue returns "[redacted]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
