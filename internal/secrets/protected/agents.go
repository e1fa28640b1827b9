package protected

// agents lists files that steer the next agent in the repository: its instructions, permissions, hooks and servers.
var agents = []Row{
	{
		"Many agents", "instructions and skills", "https://agents.md/",
		[]string{"**/AGENTS.md", "**/AGENTS.override.md", "**/AGENT.md", "**/.agents/", "**/.agent/"},
	},
	{
		"Claude Code", "instructions, permissions, hooks", "https://code.claude.com/docs/en/settings",
		[]string{"**/CLAUDE.md", "**/CLAUDE.local.md", "**/.claude/", "**/.claude-plugin/"},
	},
	{
		"Many agents", "MCP servers, started as programs", "https://code.claude.com/docs/en/mcp",
		[]string{"**/.mcp.json", "**/mcp.json"},
	},
	{
		"Codex", "permissions, hooks, MCP servers", "https://developers.openai.com/codex/hooks",
		[]string{"**/.codex/"},
	},
	{
		"Gemini CLI", "instructions, hooks, MCP servers", "https://geminicli.com/docs/reference/configuration/",
		[]string{"**/GEMINI.md", "**/.gemini/", "**/gemini-extension.json"},
	},
	{
		"GitHub Copilot", "instructions, prompts, agents, hooks",
		"https://docs.github.com/en/copilot/how-tos/configure-custom-instructions/add-repository-instructions",
		[]string{
			"**/.github/copilot-instructions.md", "**/.copilot/",
			"**/.github/{instructions,prompts,chatmodes,agents,skills,hooks,copilot}/",
		},
	},
	{
		"Cursor", "rules, hooks, MCP servers, environments", "https://cursor.com/docs/context/rules",
		[]string{"**/.cursor/", "**/.cursorrules"},
	},
	{
		"Windsurf", "rules, workflows", "https://docs.windsurf.com/windsurf/cascade/memories",
		[]string{"**/.windsurf/", "**/.windsurfrules", "**/.codeiumrules"},
	},
	{
		"opencode", "instructions, plugins, MCP servers", "https://opencode.ai/docs/config/",
		[]string{"**/opencode.{json,jsonc}", "**/.opencode/"},
	},
	{
		"Qwen Code", "instructions, hooks, MCP servers",
		"https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings/",
		[]string{"**/QWEN.md", "**/.qwen/"},
	},
	{
		"Cline", "rules, hooks", "https://docs.cline.bot/customization/cline-rules",
		[]string{"**/.clinerules*", "**/.cline/"},
	},
	{
		"Roo Code", "rules, modes, MCP servers", "https://docs.roocode.com/features/custom-instructions",
		[]string{"**/.roo/", "**/.roorules*", "**/.roomodes"},
	},
	{
		"Kilo Code", "rules, modes, MCP servers", "https://kilo.ai/docs/customize/custom-rules",
		[]string{"**/.kilocode/", "**/.kilo/", "**/.kilocoderules*", "**/.kilocodemodes"},
	},
	{
		"Continue", "rules, MCP servers", "https://docs.continue.dev/customize/deep-dives/rules",
		[]string{"**/.continue/", "**/.continuerc.json", "**/.continuerules"},
	},
	{
		"Crush", "instructions, MCP and language servers", "https://github.com/charmbracelet/crush#configuration",
		[]string{"**/CRUSH.md", "**/CRUSH.local.md", "**/.crush.json", "**/crush.json", "**/.crush/"},
	},
	{
		"pi", "instructions, extensions", "https://github.com/badlogic/pi-mono/tree/main/packages/coding-agent",
		[]string{"**/.pi/"},
	},
	{
		"Aider", "options, commands for checks", "https://aider.chat/docs/config/aider_conf.html",
		[]string{"**/.aider.conf.yml", "**/.aider.model.*"},
	},
	{
		"Goose", "instructions", "https://block.github.io/goose/docs/guides/context-engineering/using-goosehints",
		[]string{"**/.goosehints", "**/.goose/"},
	},
	{
		"Amp", "settings, MCP servers", "https://ampcode.com/manual", []string{"**/.amp/"},
	},
	{
		"Junie", "guidelines, MCP servers", "https://www.jetbrains.com/help/junie/customize-guidelines.html",
		[]string{"**/.junie/"},
	},
	{
		"Amazon Q", "rules, agents, MCP servers",
		"https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/context-project-rules.html",
		[]string{"**/.amazonq/", "AmazonQ.md"},
	},
	{
		"Kiro", "steering, hooks", "https://kiro.dev/docs/steering/", []string{"**/.kiro/"},
	},
	{
		"Augment", "rules", "https://docs.augmentcode.com/setup-augment/guidelines",
		[]string{"**/.augment/", "**/.augment-guidelines"},
	},
	{
		"Trae", "rules", "https://docs.trae.ai/ide/rules", []string{"**/.trae/"},
	},
	{
		"Warp", "rules", "https://docs.warp.dev/knowledge-and-collaboration/rules", []string{"**/WARP.md"},
	},
	{
		"OpenHands", "setup scripts, hooks, skills",
		"https://docs.openhands.dev/openhands/usage/customization/repository",
		[]string{"**/.openhands/"},
	},
	{
		"Factory", "settings, hooks, MCP servers", "https://docs.factory.ai/cli/configuration/settings",
		[]string{"**/.factory/"},
	},
	{
		"Tabnine", "guidelines, MCP servers", "https://docs.tabnine.com/main/getting-started/tabnine-agent/guidelines",
		[]string{"**/.tabnine/"},
	},
}
