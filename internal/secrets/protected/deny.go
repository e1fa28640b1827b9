package protected

// Deny lists the files that other systems run with secrets. It includes .gitmodules, because the URLs in it decide
// which code a build fetches.
var Deny = []Row{
	// CI systems
	{
		"GitHub Actions", "jobs with the repository's secrets",
		"https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax",
		[]string{".github/workflows/"},
	},
	{
		"GitHub Actions", "steps in jobs that use a local action",
		"https://docs.github.com/en/actions/reference/workflows-and-actions/metadata-syntax",
		[]string{".github/actions/", "**/action.yml", "**/action.yaml"},
	},
	{
		"Forgejo Actions", "jobs with secrets", "https://forgejo.org/docs/latest/user/actions/reference/",
		[]string{".forgejo/workflows/", ".forgejo/actions/"},
	},
	{
		"Gitea Actions", "jobs with secrets", "https://docs.gitea.com/usage/actions/overview",
		[]string{".gitea/workflows/", ".gitea/actions/"},
	},
	{
		"GitLab CI", "jobs with variables, and included files", "https://docs.gitlab.com/ci/yaml/",
		[]string{"**/.gitlab-ci.yml", "**/.gitlab-ci.yaml", "**/*.gitlab-ci.yml", ".gitlab/ci/"},
	},
	{
		"Jenkins", "pipelines with credentials", "https://www.jenkins.io/doc/book/pipeline/jenkinsfile/",
		[]string{"**/Jenkinsfile", "**/Jenkinsfile.*", "**/*.jenkinsfile"},
	},
	{
		"Jenkins X", "pipelines with secrets", "https://jenkins-x.io/v3/develop/pipelines/",
		[]string{"jenkins-x*.yml", ".lighthouse/"},
	},
	{
		"CircleCI", "jobs with contexts", "https://circleci.com/docs/configuration-reference/",
		[]string{".circleci/"},
	},
	{
		"Travis CI", "jobs with encrypted variables", "https://docs.travis-ci.com/user/encryption-keys/",
		[]string{".travis.yml", ".travis.yaml"},
	},
	{
		"Azure Pipelines", "jobs with variables and service connections",
		"https://learn.microsoft.com/en-us/azure/devops/pipelines/yaml-schema/",
		[]string{"**/azure-pipelines*.{yml,yaml}", ".azure-pipelines/", ".azuredevops/", ".vsts-ci.yml"},
	},
	{
		"Bitbucket Pipelines", "steps with variables",
		"https://support.atlassian.com/bitbucket-cloud/docs/bitbucket-pipelines-configuration-reference/",
		[]string{"bitbucket-pipelines.yml", "bitbucket-pipelines.yaml"},
	},
	{
		"Bamboo", "plans with variables", "https://confluence.atlassian.com/bamboo/bamboo-specs-894743906.html",
		[]string{"bamboo-specs/"},
	},
	{
		"Buildkite", "the agent's steps and hooks", "https://buildkite.com/docs/agent/cli/reference/pipeline",
		[]string{".buildkite/", "buildkite/", "buildkite.{yml,yaml,json}"},
	},
	{
		"Drone", "pipelines with secrets", "https://docs.drone.io/pipeline/overview/",
		[]string{".drone.{yml,yaml,jsonnet,star,starlark}"},
	},
	{
		"Harness", "pipelines with secrets", "https://developer.harness.io/docs/open-source/pipelines/overview",
		[]string{".harness/"},
	},
	{
		"Woodpecker", "workflows with secrets", "https://woodpecker-ci.org/docs/usage/workflow-syntax",
		[]string{".woodpecker.yml", ".woodpecker.yaml", ".woodpecker/"},
	},
	{
		"Vela", "pipelines with secrets", "https://go-vela.github.io/docs/usage/",
		[]string{".vela.yml", ".vela.yaml", ".vela.star", ".vela.py"},
	},
	{
		"AppVeyor", "builds with secure variables", "https://www.appveyor.com/docs/build-configuration/",
		[]string{"appveyor.yml", ".appveyor.yml", "appveyor.yaml", ".appveyor.yaml"},
	},
	{
		"Cirrus CI", "tasks with encrypted variables",
		"https://cirrus-ci.org/guide/programming-tasks/",
		[]string{".cirrus.yml", ".cirrus.yaml", ".cirrus.star"},
	},
	{
		"Semaphore", "pipelines with secrets", "https://docs.semaphore.io/reference/pipeline-yaml",
		[]string{".semaphore/"},
	},
	{
		"TeamCity", "builds and settings", "https://www.jetbrains.com/help/teamcity/kotlin-dsl.html",
		[]string{".teamcity/", ".teamcity.yml"},
	},
	{
		"Pipelines as Code", "Tekton pipelines in the cluster",
		"https://pipelinesascode.com/docs/guide/authoringprs/",
		[]string{".tekton/"},
	},
	{
		"Zuul", "jobs with secrets", "https://zuul-ci.org/docs/zuul/latest/project-config.html",
		[]string{"zuul.yaml", ".zuul.yaml", "zuul.d/", ".zuul.d/"},
	},
	{
		"Screwdriver", "jobs with secrets", "https://docs.screwdriver.cd/user-guide/configuration/",
		[]string{"screwdriver.yaml"},
	},
	{
		"SourceHut", "builds with secrets", "https://man.sr.ht/builds.sr.ht/",
		[]string{".build.yml", ".builds/"},
	},
	{
		"GoCD", "pipelines", "https://docs.gocd.org/current/advanced_usage/pipelines_as_code.html",
		[]string{"**/*.gocd.yaml", "**/*.gocd.json", "**/*.gopipeline.json"},
	},
	{
		"Prow", "jobs in the cluster", "https://docs.prow.k8s.io/docs/inrepoconfig/",
		[]string{".prow.yaml", ".prow/"},
	},
	{
		"OpenShift CI", "the jobs' image", "https://docs.ci.openshift.org/docs/architecture/ci-operator/",
		[]string{".ci-operator.yaml"},
	},
	{
		"Taskcluster", "tasks with scopes",
		"https://docs.taskcluster.net/docs/reference/integrations/github/taskcluster-yml-v1",
		[]string{".taskcluster.yml"},
	},
	{
		"Packit", "builds and actions", "https://packit.dev/docs/configuration",
		[]string{".packit.{yaml,yml,json}", "packit.{yaml,yml,json}"},
	},
	{
		"Open Build Service", "workflows with the token's rights",
		"https://openbuildservice.org/help/manuals/obs-user-guide/cha-obs-scm-ci-workflow-integration",
		[]string{".obs/"},
	},
	{
		"Launchpad", "jobs", "https://lpci.readthedocs.io/en/latest/configuration.html",
		[]string{".launchpad.yaml"},
	},
	{
		"Codefresh", "pipelines", "https://codefresh.io/docs/docs/pipelines/what-is-the-codefresh-yaml/",
		[]string{"codefresh.yml", ".codefresh/"},
	},
	{
		"Codemagic", "builds with signing keys", "https://docs.codemagic.io/yaml-basic/yaml-getting-started/",
		[]string{"codemagic.yaml"},
	},
	{
		"Bitrise", "workflows with secrets", "https://docs.bitrise.io/",
		[]string{"bitrise.yml", "bitrise.yaml"},
	},
	{
		"Xcode Cloud", "scripts with secret variables",
		"https://developer.apple.com/documentation/xcode/writing-custom-build-scripts",
		[]string{"**/ci_scripts/"},
	},
	{
		"Buddy", "pipelines", "https://buddy.works/docs/yaml/yaml-guide",
		[]string{"buddy.yml", ".buddy/"},
	},
	{
		"Scrutinizer", "builds with variables", "https://scrutinizer-ci.com/docs/configuration/build",
		[]string{".scrutinizer.yml"},
	},
	{
		"EAS Workflows", "jobs with the project's secrets", "https://docs.expo.dev/eas/workflows/get-started/",
		[]string{"**/.eas/workflows/"},
	},
	{
		"Nx Cloud", "Nx agents' steps", "https://nx.dev/ci/reference/launch-templates",
		[]string{".nx/workflows/"},
	},

	// cloud builds and deployments
	{
		"Google Cloud Build", "steps with a service account",
		"https://cloud.google.com/build/docs/build-config-file-schema",
		[]string{"**/cloudbuild*.{yaml,yml,json}"},
	},
	{
		"Firebase App Hosting", "builds with secrets", "https://firebase.google.com/docs/app-hosting/configure",
		[]string{"**/apphosting*.yaml"},
	},
	{
		"AWS CodeBuild", "phases with the project's role",
		"https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html",
		[]string{"**/buildspec*.{yml,yaml}"},
	},
	{
		"AWS CodeDeploy", "deployment hooks",
		"https://docs.aws.amazon.com/codedeploy/latest/userguide/reference-appspec-file.html",
		[]string{"**/appspec.{yml,yaml,json}"},
	},
	{
		"AWS Amplify", "builds with variables",
		"https://docs.aws.amazon.com/amplify/latest/userguide/yml-specification-syntax.html",
		[]string{"**/amplify.yml", "**/amplify.yaml"},
	},
	{
		"AWS App Runner", "builds and the start command",
		"https://docs.aws.amazon.com/apprunner/latest/dg/config-file.html",
		[]string{"**/apprunner.yaml"},
	},
	{
		"AWS Elastic Beanstalk", "deployment commands and hooks",
		"https://docs.aws.amazon.com/elasticbeanstalk/latest/dg/ebextensions.html",
		[]string{"**/.ebextensions/", "**/.platform/", "**/Buildfile"},
	},
	{
		"Netlify", "builds and previews with variables",
		"https://docs.netlify.com/build/configure-builds/file-based-configuration/",
		[]string{"**/netlify.toml"},
	},
	{
		"Vercel", "builds and previews with variables", "https://vercel.com/docs/project-configuration",
		[]string{"**/vercel.{json,ts,js,mjs}"},
	},
	{
		"Cloudflare Workers", "custom builds with the deployment's token",
		"https://developers.cloudflare.com/workers/wrangler/custom-builds/",
		[]string{"**/wrangler.{toml,json,jsonc}"},
	},
	{
		"Render", "builds and pre-deployment commands", "https://render.com/docs/blueprint-spec",
		[]string{"**/render.yaml"},
	},
	{
		"Fly.io", "release commands with secrets", "https://fly.io/docs/reference/configuration/",
		[]string{"**/fly.toml"},
	},
	{
		"Railway", "builds and pre-deployment commands", "https://docs.railway.com/reference/config-as-code",
		[]string{"**/railway.json", "**/railway.toml"},
	},
	{
		"Heroku", "builds and the release phase", "https://devcenter.heroku.com/articles/release-phase",
		[]string{"**/Procfile", "**/heroku.yml"},
	},
	{
		"DigitalOcean App Platform", "builds and deployment jobs",
		"https://docs.digitalocean.com/products/app-platform/reference/app-spec/",
		[]string{".do/"},
	},
	{
		"Upsun", "hooks in each branch's environment", "https://docs.upsun.com/create-apps/hooks.html",
		[]string{".upsun/", "**/.platform.app.yaml"},
	},
	{
		"CapRover", "builds", "https://caprover.com/docs/captain-definition-file.html",
		[]string{"captain-definition"},
	},
	{
		"Docker Hub", "hooks in automated builds",
		"https://docs.docker.com/docker-hub/repos/manage/builds/advanced/",
		[]string{
			"hooks/{post_checkout,pre_build,build,post_build,pre_test,test,post_test,pre_push,push,post_push}",
			"**/docker-compose.test.yml",
		},
	},
	{
		"Read the Docs", "builds of each branch", "https://docs.readthedocs.com/platform/stable/config-file/v2.html",
		[]string{"**/.readthedocs.{yaml,yml}", "**/readthedocs.{yaml,yml}"},
	},

	// infrastructure
	{
		"Atlantis", "plans with cloud credentials",
		"https://www.runatlantis.io/docs/repo-level-atlantis-yaml.html",
		[]string{"**/atlantis.yaml", "**/atlantis.yml"},
	},
	{
		"Digger", "plans with cloud credentials", "https://docs.digger.dev/ce/reference/digger.yml",
		[]string{"digger.yml", "digger.yaml"},
	},
	{
		"Spacelift", "hooks for runs",
		"https://docs.spacelift.io/concepts/configuration/runtime-configuration",
		[]string{".spacelift/"},
	},

	{
		"Retake", "stages and prompts",
		"../../../docs/specs/projects.md",
		[]string{".github/retake.toml", ".github/retake-prompt.md", "retake.toml"},
	},
	{
		"Git submodules", "URLs from which builds fetch code", "https://git-scm.com/docs/gitmodules",
		[]string{".gitmodules"},
	},
}
