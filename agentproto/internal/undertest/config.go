package undertest

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// A Config is the content of the configuration file of a server under test.
type Config struct {
	Listen  string `json:"listen"` // host and port
	Cert    []byte `json:"cert"`   // PEM, of the server
	Key     []byte `json:"key"`
	CA      []byte `json:"ca"`      // PEM, of the authority of both servers
	State   string `json:"state"`   // folder
	Secrets string `json:"secrets"` // file of the keys that encrypt State
	// Runtimes are the names of the runtimes by their bearer tokens.
	Runtimes map[string]string `json:"runtimes"`
	// Callbacks are the allowed origins of callback URLs.
	Callbacks []string `json:"callbacks"`
	// Others are the base URLs that sessions may move to, and MoveKey is the key that the servers
	// share.
	Others  []string `json:"others"`
	MoveKey string   `json:"move_key"`
	// Provider is the OAuth provider.
	Provider Provider `json:"provider"`
	// Broken says what is wrong with the server's manifest: no_description, bad_schema, or nothing.
	Broken string `json:"broken,omitempty"`
	// Forget makes the server store nothing, to test whether that is noticed.
	Forget bool `json:"forget,omitempty"`

	Calls           int `json:"calls"`
	CallbackTimeout int `json:"callback_ms"`
	ChoiceTimeout   int `json:"choice_ms"`
	OAuthTimeout    int `json:"authorization_ms"`
	ProviderTimeout int `json:"provider_ms"`
	MigrateTimeout  int `json:"migrate_ms"`
}

// A Provider contains the server's settings for its OAuth provider.
type Provider struct {
	Issuer   string `json:"issuer"`
	Auth     string `json:"auth"`
	Token    string `json:"token"`
	UserInfo string `json:"user_info"`
	Keys     string `json:"keys"`
	Client   string `json:"client"`
	CA       []byte `json:"ca"`
}

func readConfig(path string) (Config, error) {
	var c Config
	data, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Forgetful changes the configuration in a file so that the server stores nothing that it has
// accepted.
func Forgetful(path string) error {
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	c.Forget = true
	return c.write(path)
}

func (c Config) write(path string) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }
