package cli

import (
	"fmt"
	"os"

	"dsh-agentlink/internal/config"
	"dsh-agentlink/internal/home"
)

// load reads the environment, and names the home that it points to. What is wrong with either is a wrong use.
func load() (config.Config, *home.Home, error) {
	cfg, err := config.Load(os.Getenv)
	if err != nil {
		return cfg, nil, usageError{fmt.Errorf("the environment is wrong:\n%w", err)}
	}
	h, err := home.Open(cfg.BridgeHome)
	if err != nil {
		return cfg, nil, usageError{fmt.Errorf("the bridge's home cannot be used: %w\nDSH_BRIDGE_HOME names another folder; it has to be one that you can write", err)}
	}
	return cfg, h, nil
}
